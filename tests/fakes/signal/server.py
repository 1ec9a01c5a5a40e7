"""The Signal fake's interface for the bot: HttpServerHandler.java.

The JSON-RPC methods that the bot can call: src/main/java/org/asamk/signal/commands. There are only
the methods and parameters that a bot like ours needs, and lists are given as lists. The daemon
ignores unknown parameters; this fake refuses them, because a misspelt one would silently do
nothing. The calls that signal-cli-rest-api makes (src/client/client.go) confirm them.
"""

from __future__ import annotations

import base64
import functools
import re
import urllib.parse
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue.platforms.base import Unit
from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Outage, Record, User
from segue.testing.peers.server import Effect
from segue.testing.peers.snapshot import Upload
from segue.testing.peers.state import size
from tests.fakes.protocols import jsonrpc, rpc
from tests.fakes.protocols.entities import Entity, units
from tests.fakes.protocols.errors import bare
from tests.fakes.protocols.jsonrpc import RpcCall, RpcRefuse, mistake
from tests.fakes.protocols.templates import Json
from tests.fakes.signal.control import Control, Driver
from tests.fakes.signal.state import (
    IO,
    ME,
    NUMBER,
    USER,
    Chat,
    Failure,
    Kind,
    Message,
    Settings,
    State,
    Style,
    check,
    fill,
    unsent,
    who,
)

METHODS = rpc.table(Path(__file__).with_name("methods.json"))
_STYLE = re.compile(r"(\d+):(\d+):(BOLD|ITALIC|SPOILER|STRIKETHROUGH|MONOSPACE)")
_DATA = re.compile(r"data:([^;,]+/[^;,]+);filename=([^;,]+);base64,([A-Za-z0-9+/=]+)")
_LONGEST = 2000
"""ServiceConfig.MAX_MESSAGE_SIZE_BYTES: the rest of a longer text becomes a file."""


class Methods:
    """Each returns its result or raises RpcRefuse."""

    def __init__(self, state: State) -> None:
        self._state = state

    def version(self, _: Any) -> Json:
        return {"version": self._state.settings.version}

    # Accounts

    def list_accounts(self, _: Any) -> list[Json]:
        return [{"number": number} for number in self._state.accounts]

    def start_link(self, _: Any) -> Json:
        if not self._state.settings.network:
            raise RpcRefuse(IO, "Link request error: Connection closed!")
        no = self._state.number("link")
        uri = f"sgnl://linkdevice?uuid={no}&pub_key=BQ%2B{no}"
        self._state.links[uri] = ""
        return {"deviceLinkUri": uri}

    async def finish_link(self, it: Any) -> Json:
        """Wait for the phone, as long as the link is valid."""
        state = self._state
        uri = it.deviceLinkUri
        check(uri, "Missing deviceLinkUri.")
        check(uri in state.links, "Unknown device link uri.")
        await state.pulse.until(lambda: bool(state.links.get(uri)), 60.0)
        number = state.links.pop(uri)
        check(number, "Link request timed out, please try again.")
        check(number not in state.accounts, f"The user {number} already exists")
        accounts = (*state.accounts, number)
        state.settings = replace(state.settings, accounts=accounts, revoked=False)
        return {"number": number}

    # Messages

    def send(self, it: Any) -> Json:
        text = it.message or ""
        chat = self._target(it)
        state = self._state
        files = [_upload(uri) for uri in it.attachment or ()]
        styles = tuple(_style(style, text) for style in it.textStyle or ())
        check(text or files, "Sending empty message is not allowed")
        if size(text, Unit.BYTES) > _LONGEST:
            state.errors.append(f"send: a text of over {_LONGEST} bytes")
        sent = self._delivered(chat)
        at = str(sent["timestamp"])
        if it.editTimestamp is not None:
            self._edit(chat, str(it.editTimestamp), text=text, styles=styles, newest=at)
            return sent
        stored = tuple(state.add_file(f"{at}-{no}", file) for no, file in enumerate(files))
        message = Message(id=at, newest=at, chat=chat.id, author=ME.id, text=text, bot=True)
        state.post(replace(message, styles=styles, files=stored, preview=False))
        return sent

    def _edit(self, chat: Chat, target: str, **changes: Any) -> None:
        """Clients drop an edit of any other than the newest revision, and the daemon does not know:
        hermes-agent pull request 34561, seen with signal-cli 0.14.4.1."""
        mine = (m for m in self._state.messages.values() if m.bot and m.chat == chat.id)
        found = next((m for m in mine if m.newest == target), None)
        if found is None:
            self._state.errors.append(f"send: {target} is not the newest revision of a message")
        else:
            self._state.edit(found, replace(found, **changes))

    def type(self, it: Any) -> Json:
        chat = self._target(it)
        self._state.typing[chat.id, None] += 1
        return self._delivered(chat)

    def receipt(self, it: Any) -> Json:
        """Mark messages as read."""
        chat = self._state.direct(it.recipient)
        for message in tuple(self._state.messages.values()):
            if message.author == chat.id and int(message.newest) in it.targetTimestamp:
                self._state.put(replace(message, read=True))
        return self._delivered(chat)

    def _target(self, it: Any) -> Chat:
        names: list[str] = [*(it.recipient or ()), *(it.groupId or ())]
        check(names, "No recipients given")
        if len(names) > 1:
            raise mistake("a bot like ours writes to one chat at a time")
        return self._state.group(names[0]) if it.groupId else self._state.direct(names[0])

    def _delivered(self, chat: Chat) -> Json:
        """The result of sending to that chat, with one entry per member. Raises RpcRefuse if it
        failed for all of them: SendMessageResults.hasSuccess."""
        state = self._state
        settings = self._state.settings
        if (wait := state.wait(chat.id, settings.per_second, settings.chat_seconds, burst=1)) > 0:
            seconds = round(wait) + 1
            chat = replace(chat, failure=Failure.RATE_LIMIT, failing=(), seconds=seconds)
        if not settings.network:
            chat = replace(chat, failure=Failure.NETWORK, failing=())
        members = chat.members or (chat.id,)
        at = state.time()
        results = [self._result(chat, it) for it in members]
        if chat.failure is not None and {*members} <= {*(chat.failing or members)}:
            raise unsent(chat.failure, results, at)
        return {"timestamp": at, "results": results}

    def _result(self, chat: Chat, member: str) -> Json:
        """JsonSendMessageResult.java"""
        failure = chat.failure if member in (chat.failing or (member,)) else None
        limited = failure is Failure.RATE_LIMIT
        return fill(
            "result",
            **who(self._state.users.get(member, User(id=member, name=""))),
            group=chat.id if chat.kind is Kind.GROUP else None,
            type=failure or "SUCCESS",
            token=chat.challenge if limited else None,
            seconds=chat.seconds if limited else None,
        )

    # Lookups

    def attachment(self, it: Any) -> Json:
        check(it.id in self._state.files, f"Could not find attachment with ID: {it.id}")
        return {"data": base64.b64encode(self._state.files[it.id][1]).decode()}

    def identities(self, _: Any) -> list[Json]:
        """ListIdentitiesCommand.java"""
        failed = [it for it in self._state.chats.values() if it.failure is Failure.IDENTITY]
        untrusted = {user for it in failed for user in it.failing or it.members or (it.id,)}
        levels = dict.fromkeys(self._state.users, "TRUSTED_UNVERIFIED")
        levels |= dict.fromkeys(untrusted, "UNTRUSTED")
        return [fill("identity", trust=it, **who(self._state.users[u])) for u, it in levels.items()]

    def list_groups(self, it: Any) -> list[Json]:
        for name in it.groupId:
            check(len(name) == 44, f'Invalid group id: Failed to decode groupId "{name}"')
        return [self._listed(chat) for chat in self._state.chats.values() if chat.id in it.groupId]

    def _listed(self, chat: Chat) -> Json:
        people = {*chat.members, ME.id} if chat.joined else chat.members
        members = [fill("member", **who(self._state.users[it])) for it in people]
        return fill("listed", it=chat, members=members)


def _style(given: str, text: str) -> Style:
    match = _STYLE.fullmatch(given)
    if match is None:
        raise mistake(f"Invalid textStyle syntax ({given}) expected 'start:length:STYLE'", USER)
    part = Entity(type=match[3], offset=int(match[1]), length=int(match[2]))
    try:
        covered = part.of(text)
    except UnicodeDecodeError:
        covered = ""  # it begins or ends within a character
    if units(covered) != part.length or not covered:
        raise mistake(f"the text has no part {given}")
    return Style(part.type, part.offset, part.length)


def _upload(uri: str) -> Upload:
    """DataURI.java. The daemon also takes paths, of files that it can read."""
    match = _DATA.fullmatch(uri)
    if match is None:
        raise mistake(f"no data URI with a name: {uri[:100]}")
    name = urllib.parse.unquote(match[2])
    return Upload(name=name, media_type=match[1], content=base64.b64decode(match[3]))


_PATHS = {"/api/v1/rpc": "POST", "/api/v1/events": "GET", "/api/v1/check": "GET"}
_ACCOUNTS = ("listAccounts", "startLink", "finishLink")
"""Methods that exist only in multi-account mode."""


class Server(peers.Server[Settings, State]):
    control = Control
    polls = "check"

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return request.target.startswith("/api/v1/events")

    def farewell(self, request: Request, outage: Outage) -> Response:
        """An event stream that ends at once. There is no limit to their number."""
        return Response(headers={"Content-Type": "text/event-stream"}, body=b":\n")

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        url = urllib.parse.urlsplit(request.target)
        record.method = url.path.removeprefix("/api/v1/")
        if url.path not in _PATHS:
            raise bare(404)
        if request.method != _PATHS[url.path]:
            raise bare(405)
        if record.method == "check":
            return lambda: Response(headers={"Content-Type": ""}), None
        if record.method == "events":
            account = dict(urllib.parse.parse_qsl(url.query)).get("account")
            if account and not self.state.settings.single and account not in self.state.accounts:
                raise bare(400, mistake=False)
            return functools.partial(self.state.events.listen, "receive"), None
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise bare(415)
        call = jsonrpc.read(request.body)
        if call.id is None:
            raise bare(201)  # a notification, which has no answer
        try:
            effect, chat = self._call(str(call.method), call, record)
        except RpcRefuse as refuse:
            raise refuse.answering(call.id) from refuse
        return jsonrpc.answer(call, effect), chat

    def _call(self, name: str, call: RpcCall, record: Record) -> tuple[Effect, str | None]:
        settings = self.state.settings
        given = dict(call.params or {})
        record.parameters = given
        record.method = "edit" if name == "send" and "editTimestamp" in given else name
        missing = set(settings.missing)
        if settings.single:
            missing.update(_ACCOUNTS)
        if name not in METHODS or name in missing:
            is_mistake = name not in METHODS
            raise RpcRefuse(jsonrpc.NO_METHOD, "Method not implemented", mistake=is_mistake)
        declared, taken = METHODS[name]
        if name not in ("version", *_ACCOUNTS):
            self._check_account(given.pop("account", None))
        it: Any = jsonrpc.arguments(name, taken, given)
        chat = [*(getattr(it, "recipient", None) or ()), *(getattr(it, "groupId", None) or ())]
        handler = getattr(Methods(self.state), declared.do)
        first = chat[0] if chat else None
        return functools.partial(handler, it), first

    def _check_account(self, account: object) -> None:
        """SignalJsonRpcCommandHandler.handleRequest"""
        accounts = self.state.accounts
        if self.state.settings.single or account in accounts:
            return
        if account is not None:
            raise RpcRefuse(jsonrpc.INVALID_PARAMS, "Specified account does not exist")
        if len(accounts) != 1:
            raise RpcRefuse(jsonrpc.INVALID_PARAMS, "Method requires valid account parameter")

    def malformed(self, reason: str) -> RpcRefuse:
        return jsonrpc.mistake(reason)


class Peer(peers.Peer):
    """A running fake. Its token is the account's number: the daemon has no secrets."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.signal", token=NUMBER, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
