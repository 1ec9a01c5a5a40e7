"""Strict fakes of the providers' servers, each written from the provider's documentation."""
