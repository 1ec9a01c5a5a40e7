"""The Discord fake's interface for the bot: the REST API (v10), the gateway and the CDN.

`methods.json` has the routes and bodies of the calls. Each is named as in discord/discord-api-docs:
`resources/{message,channel,user,application}.mdx`, `components/reference.mdx`,
`interactions/*.mdx`, `events/gateway.mdx`. discord.py (`http.py`, `webhook/async_.py`) and hikari
(`tests/hikari/impl/test_rest.py`) show how clients make them.

Headers and buckets: `topics/rate-limits.mdx`; `User-Agent`: `reference.mdx`. The `Via` header is
that of the proxy in front of Discord: discord.py takes a 429 without it for a ban.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.http import Request
from segue.testing.peers import Button
from segue.testing.websocket import WebSocket
from tests.fakes.discord.control import Control, Driver
from tests.fakes.discord.state import (
    BOT,
    SIGNED,
    Flag,
    Kind,
    Message,
    MessageType,
    Place,
    Settings,
    State,
    check,
    refuse,
)
from tests.fakes.protocols.gateway import GatewaySocket
from tests.fakes.protocols.rest import NONE, Files, RestMethods, RestServer, Routes
from tests.fakes.protocols.templates import Json

_IGNORED = ("use_nested_fields", "with_counts", "is")
ROUTES = Routes(Path(__file__).with_name("methods.json"), "payload_json", _IGNORED)
_LARGEST_FILE = 10 * 1024 * 1024


class Methods(RestMethods[State]):
    _at: Place
    """The place of a call in a channel."""

    def __init__(self, state: State, path: Mapping[str, str]) -> None:
        super().__init__(state, path)
        self._make = state.objects
        if (channel := path.get("channel")) is not None:
            if not channel.isdecimal():
                raise refuse.invalid(f"Value {channel!r} is not snowflake. - at `$.channel_id`")
            self._at = state.place(int(channel))
            self.chat = self._at.chat.id
            check(state.sees(self._at.chat), 50001)

    def download(self, name: str, ex: str = "0", hm: str = "") -> bytes:
        """The content of an attachment, until its URL expires."""
        is_signed = hm == SIGNED and int(ex, 16) > time.time()
        check(is_signed and name in self._state.files, 404)
        return self._state.files[name][1]

    # The bot and its guilds

    def get_gateway(self) -> Json:
        return self._make("gateway", url=self._state.socket_url, limit=self._state.start_limit())

    def get_current_user(self) -> Json:
        return self._make.user(BOT)

    def get_user(self, user: int) -> Json:
        check(user in self._state.users, 10013)
        return self._make.user(user)

    def get_current_application(self) -> Json:
        return self._make.application(BOT)

    def get_guild(self, guild: int) -> Json:
        check(guild in self._state.guilds, 10004)
        check(self._state.guilds[guild].joined, 50001)
        return self._make.guild(self._state.guilds[guild])

    def get_guild_member(self, guild: int, user: int) -> Json:
        self.get_guild(guild)
        check(user in self._state.users, 10007)
        check((guild, user) not in self._state.absent, 10007)
        return self._make.member(guild, user)

    def list_active_guild_threads(self, guild: int) -> Json:
        return {"threads": self.get_guild(guild)["threads"], "members": []}

    def bulk_overwrite_commands(self, body: list[Json], guild: int = 0) -> list[Json]:
        if guild:
            self.get_guild(guild)
        fixed = self._make("command", bot=BOT, guild=guild)
        made = [{**fixed, **it, "id": str(self._state.name())} for it in body]
        self._state.commands[guild] = {it["name"]: it for it in made}
        return made

    def get_commands(self, guild: int = 0) -> list[Json]:
        return list(self._state.commands.get(guild, {}).values())

    # Channels and threads

    def get_channel(self) -> Json:
        return self._make.place(self._at)

    def modify_channel(self, body: Json) -> Json:
        """Reopen a thread that is not locked."""
        check(not self._is_locked(), 50013)
        changed = self._state.update(replace(self._state.thread(self._at), closed=body["archived"]))
        return self._make.thread(changed)

    def trigger_typing(self) -> None:
        self._check_writable()
        self._state.typing[self._at.ids] += 1

    def create_dm(self, body: Json) -> Json:
        user = int(body["recipient_id"])
        check(user in self._state.users and user != BOT, 50033)
        return self._make.channel(self._state.private(user))

    def start_thread_from_message(self, message: int, body: Json) -> Json:
        source = self._state.message(self._at, message)
        kind = self._at.chat.threads
        check(kind and self._at.thread is None, 50024)
        check(not source.service, 50021)
        check((source.chat, source.id) not in self._state.threads, 160004)
        return self._open(body, source)

    def start_thread(self, body: Json, files: Files = NONE) -> Json:
        """Without a message; or in a forum with one, whose id is that of the thread.

        Discord makes a thread without a type a private one, which nobody sees: a mistake.
        """
        check(self._at.chat.threads and self._at.thread is None, 50024)
        if self._at.chat.kind is Kind.FORUM:
            if (said := body.get("message")) is None:
                raise refuse.invalid("This field is required - at `$.message`")
            first = self._compose(self._state.written(self._at, BOT), said, files)
            opened = self._open(body, first)
            post = self._state.messages[first.chat, first.id]
            return {**opened, "message": self._make.message(post)}
        if body.get("type") != self._at.chat.threads:
            raise refuse.invalid("This is no public thread. - at `$.type`")
        return self._open(body)

    def _open(self, body: Json, source: Message | None = None) -> Json:
        chat = self._at.chat
        active = [it for it in self._state.threads.values() if not it.closed]
        self._need("SEND_MESSAGES" if chat.kind is Kind.FORUM else "CREATE_PUBLIC_THREADS")
        check(len(active) < self._state.settings.active_threads, 160006)
        return self._make.thread(self._state.open(chat, body["name"], BOT, source))

    def add_thread_member(self, user: int | str) -> None:
        """`@me` is the bot."""
        thread = self._state.thread(self._at)
        who = BOT if user == "@me" else int(user)
        check(not thread.closed, 50083)
        if who != BOT:
            self._need("SEND_MESSAGES_IN_THREADS")
            check(who in self._at.chat.members, 10013)
        self._state.join(thread, who)

    # Messages

    def get_channel_messages(
        self,
        limit: Annotated[int, Meta(ge=1, le=100)] = 50,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Json]:
        """The newest, those before `before`, or the first ones after `after`, which exclude each
        other; the newest first, also after `after`. None without the permission."""
        if after is not None and before is not None:
            raise refuse.invalid("Only one of before, after and around can be given.")
        if not self._state.can(self._at.chat, "READ_MESSAGE_HISTORY"):
            return []
        found = self._state.page(self._at, limit, after, before)
        self._state.gateway.missed -= {it.id for it in found}
        return [self._read(it) for it in found if it.only_for is None]

    def get_channel_message(self, message: int) -> Json:
        self._need("READ_MESSAGE_HISTORY")
        return self._read(self._state.message(self._at, message))

    def _read(self, it: Message) -> Json:
        data = self._make.message(it)
        is_open = self._state.settings.content
        return data if is_open or not self._at.chat.guild else self._make.concealed(data)

    def create_message(self, body: Json, files: Files = NONE) -> Json:
        """An enforced nonce returns the message that was sent with it before, in any channel.

        The nonce of a deleted message stays used: discord-api-docs 6647.
        """
        self._check_writable()
        state = self._state
        nonce = body.get("nonce")
        if body.get("enforce_nonce") and (before := state.nonces.get(str(nonce))):
            check(before in state.messages, 10008)
            return self._make.message(state.messages[before])
        made = self._compose(replace(state.written(self._at, BOT), nonce=nonce), body, files)
        if nonce is not None:
            state.nonces.put(str(nonce), (made.chat, made.id))
        return self._make.message(state.say(made))

    def edit_message(self, message: int, body: Json, files: Files = NONE) -> Json:
        before = self._state.message(self._at, message)
        thread = self._at.thread
        check(before.author == BOT, 50005)
        check(not before.service, 50021)
        check(thread is None or not thread.closed, 50083)
        check(not self._is_locked(), 160005)
        after = self._compose(before, body, files)
        return self._make.message(self._state.change(before, after))

    # Interactions

    def create_interaction_response(
        self, interaction: int, token: str, body: Json, with_response: bool = False
    ) -> Json | None:
        """Once, within three seconds. Into a locked thread it fails: discord-api-docs 5517."""
        state = self._state
        it = self._state.interactions.get(interaction)
        if it is None or it.token != token:
            raise refuse(10062)
        check(str(it.id) not in state.answered, 40060)
        check(it.seconds <= state.settings.interaction_seconds, 10062)
        answer = it.message or 0
        resource = dict[str, Any](type=body["type"])
        if body["type"] == 4:
            self._at = state.place(it.place)
            check(not self._is_locked(), 50083)
            blank = replace(state.written(self._at, BOT), type=MessageType.CHAT_INPUT_COMMAND)
            made = self._compose(replace(blank, flags=Flag.EPHEMERAL), body["data"])
            made = state.say(replace(made, only_for=it.user))
            answer = made.id
            resource["message"] = self._make.message(made)
        state.answered.append(str(it.id))
        done = self._make("callback", it=it, answer=answer, resource=resource)
        return done if with_response else None

    # What messages have in common

    def _need(self, permission: str) -> None:
        check(self._state.can(self._at.chat, permission), 50013)

    def _check_writable(self) -> None:
        chat, thread = self._at
        check(chat.joined, 50007)
        check(chat.kind is not Kind.FORUM or thread, 50008)
        self._need("SEND_MESSAGES" if thread is None else "SEND_MESSAGES_IN_THREADS")
        check(not self._is_locked(), 160005)
        check(self._state.settings.revives or not (thread and thread.closed), 50083)

    def _is_locked(self) -> bool:
        """Whether the thread is locked for the bot."""
        chat, thread = self._at
        return bool(thread and thread.locked and not self._state.can(chat, "MANAGE_THREADS"))

    def _compose(self, it: Message, body: Json, files: Files = NONE) -> Message:
        """The message with what the body gives; what it leaves out stays."""
        state = self._state
        change = dict[str, Any]()
        if "content" in body:
            text = (body["content"] or "").strip()
            every = {"parse": ["users", "everyone"]}
            if len(text) > 2000:
                reason = "Must be 2000 or fewer in length. - at `$.content`"
                raise refuse.invalid(reason, "BASE_TYPE_MAX_LENGTH", mistake=False)
            allowed = (body.get("allowed_mentions") or every).get("parse") or ()
            everyone = "everyone" in allowed and state.can(self._at.chat, "MENTION_EVERYONE")
            change["mentions"] = state.mentioned(text) if "users" in allowed else ()
            change["everyone"] = everyone and ("@everyone" in text or "@here" in text)
            change["text"] = text
        if files:
            self._need("ATTACH_FILES")
            check(all(len(one.content) <= _LARGEST_FILE for one in files.values()), 40005)
            change["files"] = (*it.files, *map(state.store, files.values()))
        if "components" in body:
            rows = tuple(body["components"] or ())
            change |= {"buttons": _buttons(rows), "components": rows}
        if (given := body.get("flags")) is not None:
            preview = not given & Flag.SUPPRESS_EMBEDS
            kept = it.flags & ~Flag.SUPPRESS_EMBEDS
            change |= {"preview": preview, "flags": kept | given & Flag.SUPPRESS_EMBEDS}
        made = replace(it, **change)
        check(made.text or made.buttons or made.files, 50006)
        return made


def _buttons(rows: tuple[Json, ...]) -> tuple[Button, ...]:
    buttons: list[Button] = []
    for row, one in enumerate(rows):
        for it in one["components"]:
            buttons.append(Button(label=it["label"], data=it["custom_id"], row=row))
    return tuple(buttons)


class Server(RestServer[Settings, State]):
    control = Control
    routes = ROUTES
    methods = Methods
    errors = refuse
    headers = {"Via": "1.1 google"}  # noqa: RUF012

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    async def connect(self, wire: WebSocket, target: str) -> None:
        state = self.state
        token = "" if self.state.settings.revoked else self.token
        socket = GatewaySocket(state.gateway, wire, token, state.errors, self.outages.now)
        wire.is_compressed = "compress=zlib-stream" in target
        if "v=10" not in target or "encoding=json" not in target:
            raise socket.mistake(4012, "Invalid API version")
        await socket.serve(*state.settings.heartbeats)

    def check(self, request: Request, *, is_open: bool) -> None:
        if not is_open:
            allowed = not self.state.settings.revoked and f"Bot {self.token}"
            check(request.headers.get("authorization") == allowed, 401)
            if not request.headers.get("user-agent", "").startswith("DiscordBot ("):
                raise refuse(40333, mistake=True)
            if wait := self.state.wait(0, self.state.settings.per_second, 0, 1):
                raise refuse.too_often(wait, everywhere=True)


TOKEN = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.Gtests.the_token_of_the_bot_for_tests_00000001"


class Peer(peers.Peer):
    """A running fake. Set `discord.http.Route.BASE` and the default gateway to two of its URLs."""

    @property
    def base_url(self) -> str:
        return f"{self.url}/api/v10"

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.discord", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
