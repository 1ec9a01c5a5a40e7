"""Sending a message to somewhere else than the conversation itself, or a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec

from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace, visible
from segue.agent.tools.files import PathArgument, resolve
from segue.core.address import Platform
from segue.core.context import Delivery, parse_delivery
from segue.core.errors import BadDelivery, UserError
from segue.core.text import is_empty

TEXT_LIMIT = 8000

CAPTION_LIMIT = 900

Send = Callable[[Delivery, str, Path | None], Awaitable[str]]
"""Sends a text, perhaps with a file, and gives the sentence that says where it went; a UserError
says why not."""

To = Annotated[
    str,
    msgspec.Meta(
        description=(
            "origin for where this conversation takes place, local, the name of a platform "
            "for its home channel, or platform:chat_id."
        ),
        min_length=1,
    ),
]


class SendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: To
    text: Annotated[
        str,
        msgspec.Meta(description="All that is sent.", min_length=1, max_length=TEXT_LIMIT),
    ]


class SendFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    caption: Annotated[
        str, msgspec.Meta(description="What is said of it.", max_length=CAPTION_LIMIT)
    ] = ""
    to: To = "origin"


def send_message(send: Send) -> Tool[SendArguments]:
    """The tool that sends with `send`, which decides what the owner may reach."""

    async def work(arguments: SendArguments, _: Workplace) -> str:
        to = _checked(arguments)
        try:
            return await send(to, arguments.text, None)
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


def send_file(send: Send) -> Tool[SendFileArguments]:
    """The tool that sends a file with `send`."""

    async def work(arguments: SendFileArguments, place: Workplace) -> str:
        to = _place(arguments.to)
        path = _file(arguments.path, place)
        try:
            return await send(to, arguments.caption, path)
        except UserError as error:
            raise ToolFailed(str(error)) from error

    return Tool(
        name="send_file",
        description="Send a file or a picture of this machine to a chat.",
        risk=Risk.SEND,
        arguments=SendFileArguments,
        work=work,
        tell=lambda arguments, place: visible(
            f"send {_file(arguments.path, place)} to {_where(_place(arguments.to))}"
            f"\n{arguments.caption}".rstrip()
        ),
    )


def _checked(arguments: SendArguments) -> Delivery:
    """Where to, if that is a place and there is something to see in the text."""
    if is_empty(arguments.text):
        raise ToolFailed("There is nothing to see in that text.")
    return _place(arguments.to)


def _place(to: str) -> Delivery:
    try:
        return parse_delivery(to)
    except BadDelivery as error:
        raise ToolFailed(str(error)) from error


def _file(given: str, place: Workplace) -> Path:
    """The file that really goes out, wherever a link leads."""
    path = resolve(given, place).resolve()
    if not path.is_file():
        raise ToolFailed(f"There is no file {path}.")
    return path


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
