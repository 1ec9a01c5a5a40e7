"""Strict stand-ins for the providers' servers, each written from the provider's documentation."""
