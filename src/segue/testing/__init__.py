"""What tests need: a clock that obeys, a real PostgreSQL for an hour, strict fake servers."""
