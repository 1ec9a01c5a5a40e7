"""Test support: a manual clock, a temporary PostgreSQL server, and strict fake servers."""
