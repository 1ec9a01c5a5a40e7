"""Platforms: what an adapter must offer, and the adapters, one module or folder each."""
