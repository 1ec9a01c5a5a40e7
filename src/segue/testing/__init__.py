"""What tests need and users may ship: a clock that obeys, a real PostgreSQL for an hour."""
