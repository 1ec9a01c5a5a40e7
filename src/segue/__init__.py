"""Segue: a personal AI agent whose live conversations move with you."""

__version__ = "0.1.0"
