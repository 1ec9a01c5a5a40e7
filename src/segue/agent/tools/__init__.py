"""The agent's tools on this machine.

`base` defines the interface; the other modules implement it.
"""
