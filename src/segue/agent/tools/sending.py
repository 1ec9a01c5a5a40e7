"""Sending a message to somewhere else than the conversation itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec

from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace, visible
from segue.core.address import Platform
from segue.core.context import Delivery, parse_delivery
from segue.core.errors import BadDelivery, UserError
from segue.core.text import is_blank, one_line

TEXT_LIMIT = 8000

Send = Callable[[Delivery, str], Awaitable[str]]
"""Sends a text, and gives the sentence that says where it went; a UserError says why not."""


class SendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[
        str,
        msgspec.Meta(
            description=(
                "origin for where this conversation takes place, local, the name of a platform "
                "for its home channel, or platform:chat_id."
            ),
            min_length=1,
        ),
    ]
    text: Annotated[
        str,
        msgspec.Meta(description="All that is sent.", min_length=1, max_length=TEXT_LIMIT),
    ]


def send_message(send: Send) -> Tool[SendArguments]:
    """The tool that sends with `send`, which decides what the owner may reach."""

    async def work(arguments: SendArguments, _: Workplace) -> str:
        to = _checked(arguments)
        try:
            return await send(to, arguments.text)
        except UserError as error:
            raise ToolFailed(str(error)) from error

    return Tool(
        name="send_message",
        description=(
            "Send a message to a chat. Not for your answer in this conversation, "
            "which is delivered by itself."
        ),
        risk=Risk.SEND,
        arguments=SendArguments,
        work=work,
        tell=lambda arguments, _: visible(
            f"send to {_where(_checked(arguments))}:\n{arguments.text}"
        ),
    )


def _checked(arguments: SendArguments) -> Delivery:
    """Where to, if that is a place and there is something to see in the text."""
    if is_blank(one_line(arguments.text)):
        raise ToolFailed("There is nothing to see in that text.")
    try:
        return parse_delivery(arguments.to)
    except BadDelivery as error:
        raise ToolFailed(str(error)) from error


def _where(to: Delivery) -> str:
    """The place as a person understands it."""
    match to:
        case Delivery(platform=None):
            return f"{to}, where this conversation takes place"
        case Delivery(platform=Platform.LOCAL):
            return f"{to}, this machine"
        case Delivery(chat_id=None):
            return f"{to}, your home channel there"
        case _:
            return str(to)
