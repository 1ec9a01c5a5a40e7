"""The built-in web page: a platform that needs no account, since its server is ours."""
