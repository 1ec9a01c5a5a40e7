"""The base class of a fake's refusals."""

from __future__ import annotations


class Refuse(Exception):
    """Raised by the handler of a call or an order to refuse it.

    Each fake has its own subclass with the answer that the bot gets. A test gets the message.
    """
