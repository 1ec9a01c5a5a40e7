"""The JSON-RPC methods that the bot can call: src/main/java/org/asamk/signal/commands.

There are only the methods and parameters that a bot like ours needs, and lists are given as lists.
The daemon ignores unknown parameters; this fake refuses them, because a misspelt one would silently
do nothing. Sources: `SendCommand`, `SendTypingCommand`, `SendReceiptCommand`,
`GetAttachmentCommand`, `ListGroupsCommand`, `StartLinkCommand`, `FinishLinkCommand`, and the calls
that signal-cli-rest-api makes (src/client/client.go).
"""

from __future__ import annotations

import asyncio
import base64
import re
import urllib.parse
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue.platforms.base import Unit
from segue.testing.peers import User, rpc
from segue.testing.peers.entities import Entity
from segue.testing.peers.limits import size
from segue.testing.peers.snapshot import Upload
from segue.testing.peers.templates import Json
from segue.testing.signal.errors import IO, NO_METHOD, USER, Refuse, check, mistake, unsent
from segue.testing.signal.snapshot import ME, Chat, Failure, Kind, Message, Style, fill
from segue.testing.signal.state import State, who

METHODS = rpc.table(Path(__file__).with_suffix(".json"))
GLOBAL = ("version", "listAccounts", "startLink", "finishLink")
"""Methods for no particular account. All but the first exist only in multi-account mode."""
_STYLES = ("BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE")
_STYLE = re.compile(r"(\d+):(\d+):(.+)")
_DATA = re.compile(r"data:([^;,]+/[^;,]+);filename=([^;,]+);base64,([A-Za-z0-9+/=]+)")
_LONGEST = 2000
"""ServiceConfig.MAX_MESSAGE_SIZE_BYTES: the rest of a longer text becomes a file."""
_LINK = "sgnl://linkdevice?uuid={}&pub_key=BQ%2B{}"


class Methods:
    """Each returns its result or raises Refuse."""

    def __init__(self, state: State) -> None:
        self._state = state

    def version(self, _: Any) -> Json:
        return {"version": self._state.settings.version}

    # Accounts

    def list_accounts(self, _: Any) -> list[Json]:
        return [{"number": number} for number in self._state.accounts]

    def start_link(self, _: Any) -> Json:
        if not self._state.settings.network:
            raise Refuse(IO, "Link request error: Connection closed!")
        no = self._state.number("link")
        self._state.links[uri := _LINK.format(no, no)] = ""
        return {"deviceLinkUri": uri}

    async def finish_link(self, it: Any) -> Json:
        """Wait for the phone, as long as the link is valid."""
        state, uri = self._state, it.deviceLinkUri
        check(uri, "Missing deviceLinkUri.")
        check(uri in state.links, "Unknown device link uri.")
        await state.pulse.until(lambda: bool(state.links.get(uri)), 60.0)
        await asyncio.sleep(0)
        check(number := state.links.pop(uri), "Link request timed out, please try again.")
        check(number not in state.accounts, f"The user {number} already exists")
        accounts = (*state.accounts, number)
        state.settings = replace(state.settings, accounts=accounts, revoked=False)
        return {"number": number}

    # Messages

    def send(self, it: Any) -> Json:
        text, chat = it.message or "", self._target(it)
        files = [_upload(uri) for uri in it.attachment or ()]
        styles = tuple(_style(style, text) for style in it.textStyle or ())
        if it.quoteTimestamp is not None:
            check(it.quoteAuthor, "Quote author parameter is missing")
        check(text or files, "Sending empty message is not allowed, either a message, attachment or"
              " sticker must be given.")  # fmt: skip
        if size(text, Unit.BYTES) > _LONGEST:
            self._state.errors.append(f"send: a text of over {_LONGEST} bytes")
        at, results = self._delivered(chat)
        if it.editTimestamp is not None:
            self._edit(chat, str(it.editTimestamp), text, styles, at)
        else:
            stored = tuple(self._state.add_file(f"{at}-{no}", f) for no, f in enumerate(files))
            quoted = str(it.quoteTimestamp) if it.quoteTimestamp else None
            message = Message(
                id=str(at), newest=str(at), chat=chat.id, author=ME.id, text=text, styles=styles,
                files=stored, reply_to=quoted, preview=False, bot=True,
            )  # fmt: skip
            self._state.post(message)
        return {"timestamp": at, "results": results}

    def _edit(self, chat: Chat, target: str, text: str, styles: Any, at: int) -> None:
        """Clients drop an edit of any other than the newest revision, and the daemon does not know:
        hermes-agent pull request 34561, seen with signal-cli 0.14.4.1."""
        mine = (m for m in self._state.messages.values() if m.bot and m.chat == chat.id)
        found = next((m for m in mine if m.newest == target), None)
        if found is None:
            self._state.errors.append(f"send: {target} is not the newest revision of a message")
            return
        self._state.edit(found, replace(found, text=text, styles=styles, newest=str(at)))

    def type(self, it: Any) -> Json:
        chat = self._target(it)
        at, results = self._delivered(chat)
        self._state.typing[chat.id, None] += 0 if it.stop else 1
        return {"timestamp": at, "results": results}

    def receipt(self, it: Any) -> Json:
        check(it.type in (None, "read", "viewed"), f"Unknown receipt type: {it.type}")
        author = self._state.direct(it.recipient).id
        for message in tuple(self._state.messages.values()):
            if message.author == author and int(message.newest) in it.targetTimestamp:
                self._state.keep(replace(message, read=True))
        at, results = self._delivered(self._state.direct(it.recipient))
        return {"timestamp": at, "results": results}

    def _target(self, it: Any) -> Chat:
        names: list[str] = [*(it.recipient or ()), *(it.groupId or ())]
        check(names, "No recipients given")
        if len(names) > 1:
            raise mistake("a bot like ours writes to one chat at a time")
        return self._state.group(names[0]) if it.groupId else self._state.direct(names[0])

    def _delivered(self, chat: Chat) -> tuple[int, list[Json]]:
        """The timestamp and the results of sending to that chat. Raise Refuse if all failed."""
        state, settings = self._state, self._state.settings
        failure, seconds = chat.failure, chat.seconds
        if (wait := state.wait(chat.id, settings.per_second, settings.chat_seconds, burst=1)) > 0:
            failure, seconds = Failure.RATE_LIMIT, round(wait) + 1
        if not settings.network:
            failure = Failure.NETWORK
        given: Json = {"group": chat.id if chat.kind is Kind.GROUP else None, "token": None}
        if failure is Failure.RATE_LIMIT:
            given["token"] = chat.challenge or None
        unknown = User(id=chat.id, name="")
        at, members = (
            state.time(),
            [state.users.get(it, unknown) for it in chat.members or (chat.id,)],
        )
        kind = failure or "SUCCESS"
        given["seconds"] = seconds if failure is Failure.RATE_LIMIT else None
        results = [fill("result", type=kind, **who(member), **given) for member in members]
        if failure is not None:
            raise unsent(results, at)
        return at, results

    def attachment(self, it: Any) -> Json:
        check(it.id, "Missing attachment id parameter")
        found = self._state.files.get(it.id)
        if found is None:
            raise Refuse(USER, f"Could not find attachment with ID: {it.id}")
        return {"data": base64.b64encode(found[1]).decode()}

    def identities(self, _: Any) -> list[Json]:
        """ListIdentitiesCommand.java"""
        untrusted = {it.id for it in self._state.chats.values() if it.failure is Failure.IDENTITY}
        return [
            fill(
                "identity",
                trust="UNTRUSTED" if it.id in untrusted else "TRUSTED_UNVERIFIED",
                **who(it),
            )
            for it in self._state.users.values()
        ]

    def list_groups(self, it: Any) -> list[Json]:
        groups = [chat for chat in self._state.chats.values() if chat.kind is Kind.GROUP]
        if it.groupId is not None:
            for name in it.groupId:
                check(len(name) == 44, f'Invalid group id: Failed to decode groupId "{name}"')
            groups = [chat for chat in groups if chat.id in it.groupId]
        return [self._listed(chat) for chat in groups]

    def _listed(self, chat: Chat) -> Json:
        people = [*chat.members, *([ME.id] if chat.joined and ME.id not in chat.members else [])]
        members = [fill("member", **who(self._state.users[it])) for it in people]
        may = "ONLY_ADMINS" if chat.announcements else "EVERY_MEMBER"
        return fill("listed", it=chat, member=chat.joined, members=members, may=may)


def exists(method: str, *, single: bool) -> bool:
    return method in METHODS and not (single and method in GLOBAL[1:])


def unknown(method: str, *, mistake: bool) -> Refuse:
    return Refuse(NO_METHOD, "Method not implemented", mistake=mistake and bool(method))


def _style(given: str, text: str) -> Style:
    match = _STYLE.fullmatch(given)
    if match is None:
        raise Refuse(USER, f"Invalid textStyle syntax ({given}) expected 'start:length:STYLE'")
    start, length, style = int(match[1]), int(match[2]), match[3]
    check(style in _STYLES, f"Invalid style: {style}")
    part = Entity(type=style, offset=start, length=length)
    try:
        covered = part.of(text)
    except UnicodeDecodeError:
        covered = ""  # it begins or ends within a character
    if size(covered, Unit.UTF16) != length or not covered:
        raise mistake(f"the text has no part {given}")
    return Style(style, start, length)


def _upload(uri: str) -> Upload:
    """DataURI.java. The daemon also takes paths, of files that it can read."""
    match = _DATA.fullmatch(uri)
    if match is None:
        raise mistake(f"no data URI with a name: {uri[:100]}")
    name = urllib.parse.unquote(match[2])
    return Upload(name=name, media_type=match[1], content=base64.b64decode(match[3]))
