"""How fast it is, beside the figures it has to reach: `python -m benchmarks --help`."""
