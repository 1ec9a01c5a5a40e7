"""How a fake says no."""

from __future__ import annotations


class Refuse(Exception):
    """Raised where a call or an order is handled: it is not done. Each fake has its own, with what
    its platform tells the bot; a test is told the words."""
