"""Benchmarks, with a target for most figures: `python -m benchmarks --help`."""
