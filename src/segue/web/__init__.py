"""The built-in web page: a platform that needs no account, because the gateway serves it itself."""
