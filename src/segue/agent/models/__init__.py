"""Models: one small protocol, a module for each wire format, and the choice of a model."""
