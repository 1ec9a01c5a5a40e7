"""Tools that send a message to another chat, or a file to any chat."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from msgspec import Meta, Struct

from segue.agent.tools.base import Proposal, Tool, ToolFailed, Workplace
from segue.agent.tools.files import PathArgument, resolve
from segue.agent.tools.targets import Target, aim
from segue.approvals.rules import Risk
from segue.core.address import Address, Delivery, parse_delivery
from segue.core.approval import Description
from segue.core.errors import BadDelivery, UserError
from segue.core.text import is_empty, visible, visible_name

TEXT_LIMIT = 8000
CAPTION_LIMIT = 900
FILE_LIMIT = 50 * 1024 * 1024
"""In bytes. No platform accepts more."""


class SentFile(Struct, frozen=True):
    """A file, with its content when it was approved."""

    path: Path
    data: bytes


class Channels(Protocol):
    """Where the agent may send messages. All methods raise UserError."""

    async def find(self, to: Delivery) -> Address:
        """The place that `to` means now, in this conversation."""
        ...

    def refusal(self, to: Address, name: str, size: int) -> str:
        """Return why a file with this name and size cannot be sent, or an empty string."""
        ...

    async def send(self, to: Address, text: str, file: SentFile | None) -> str:
        """Send a text, optionally with a file. Return a sentence that names the destination."""
        ...


To = Annotated[
    str,
    Meta(
        description=(
            "origin for where this conversation takes place, local, the name of a platform "
            "for its home channel, or platform:chat_id."
        ),
        min_length=1,
    ),
]


class SendArguments(Struct, frozen=True, forbid_unknown_fields=True):
    to: To
    text: Annotated[str, Meta(description="All that is sent.", min_length=1, max_length=TEXT_LIMIT)]


class SendFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    caption: Annotated[str, Meta(description="What is said of it.", max_length=CAPTION_LIMIT)] = ""
    to: To = "origin"


def send_message(channels: Channels) -> Tool[SendArguments]:
    """The tool that sends text to `channels`, which decide what the owner may reach."""

    async def propose(arguments: SendArguments, _: Workplace) -> Proposal:
        if is_empty(arguments.text):
            raise ToolFailed("There is nothing to see in that text.")
        to = _place(arguments.to)
        address = await _told(channels.find(to))
        return Proposal(
            what=Description(f"send to {_where(to, address)}:", visible(arguments.text)),
            work=lambda: _told(channels.send(address, arguments.text, None)),
            exact=address.key,
            place=address.key,
        )

    return Tool(
        name="send_message",
        description=(
            "Send a message to a chat. Not for your answer in this conversation, "
            "which is delivered by itself."
        ),
        risk=Risk.SEND,
        arguments=SendArguments,
        propose=propose,
    )


def send_file(channels: Channels) -> Tool[SendFileArguments]:
    """The tool that sends a file to `channels`."""

    async def propose(arguments: SendFileArguments, place: Workplace) -> Proposal:
        to = _place(arguments.to)
        target = _file(arguments.path, place)
        address = await _told(channels.find(to))
        size = target.file.st_size if target.file else 0
        if reason := channels.refusal(address, target.path.name, size):
            raise ToolFailed(f"{target.path} was not sent to {address}: {reason}.")
        private = place.private.holds(str(target.path))
        secret = " (which may hold passwords or keys)" if private else ""

        async def work() -> str:
            data = await asyncio.to_thread(_read, target)
            sent = SentFile(target.path, data)
            return await _told(channels.send(address, arguments.caption, sent))

        file = f"the file {visible_name(target.path)}{secret}"
        bound = f"{target.version}\0{address.key}"
        return Proposal(
            what=Description(f"send to {_where(to, address)}\n{file}", visible(arguments.caption)),
            work=work,
            exact=bound,
            place=bound,
        )

    return Tool(
        name="send_file",
        description="Send a file or a picture of this machine to a chat.",
        risk=Risk.SEND,
        arguments=SendFileArguments,
        propose=propose,
    )


T = TypeVar("T")


async def _told(work: Awaitable[T]) -> T:
    """The result of `work`. Its errors are for the agent."""
    try:
        return await work
    except UserError as error:
        raise ToolFailed(str(error)) from error


def _place(to: str) -> Delivery:
    try:
        return parse_delivery(to)
    except BadDelivery as error:
        raise ToolFailed(str(error)) from error


def _file(given: str, place: Workplace) -> Target:
    """The file that will be sent, with links resolved."""
    target = aim(resolve(given, place))
    if target.file is None or not stat.S_ISREG(target.file.st_mode):
        raise ToolFailed(f"There is no file {target.path}.")
    if not 0 < target.file.st_size <= FILE_LIMIT:
        megabytes = FILE_LIMIT // 1024**2
        raise ToolFailed(f"{target.path} is empty, or has more than {megabytes} MB.")
    return target


def _read(target: Target) -> bytes:
    """Read the approved file. Raise TargetChanged if it has changed since."""
    try:
        with target.opened() as number, os.fdopen(number, "rb", closefd=False) as file:
            data = file.read(FILE_LIMIT)
            target.require_unchanged(os.fstat(number))
    except OSError as error:
        raise ToolFailed(f"{target.path} cannot be read: {error.strerror}.") from error
    return data


def _where(to: Delivery, address: Address) -> str:
    """The destination, described for the user. What is relative, such as `origin`, is resolved."""
    match to:
        case Delivery(platform=None):
            return f"{visible_name(address)}, where this conversation takes place"
        case Delivery(chat_id=None):
            return f"{visible_name(address)}, your home channel there"
        case _:
            return visible_name(address)
