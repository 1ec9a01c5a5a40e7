"""The test platform, in a separate process, meets the contract in every shape of chat."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from segue.core.address import Platform
from segue.platforms.base import Adapter, Dialect
from segue.testing.platform import Hands, Peer, PeerAdapter, Rules, Shape, Trouble, Upload
from segue.testing.platform.process import FAKE
from segue.testing.platform.wire import (
    Changed,
    Commanded,
    Joined,
    Pressed,
    Said,
    Update,
    WireChat,
    WireFile,
    WireMessage,
    WireUser,
)
from tests.peers import forked
from tests.platforms.contract import RemoteContract
from tests.platforms.malformed import Path, Specimen
from tests.platforms.rig import Act, File, Lack, Place, RemoteRig, Seen

FULL = Rules()
BARE = Rules(
    threads=False,
    edits=False,
    buttons=False,
    typing=False,
    keys=False,
    dialect=Dialect.PLAIN,
    echo=False,
    link=None,
)
THREADED = frozenset({Shape.DM, Shape.GROUP, Shape.CHANNEL, Shape.FORUM})
IMPATIENT = 0.6


class PeerRig:
    """Anna on the test platform."""

    def __init__(self, peer: Peer, hands: Hands, rules: Rules) -> None:
        self._peer = peer
        self._hands = hands
        self._rules = rules
        self._other_bot = ""
        self.anna = ""
        self.name = "Anna"
        self.lacks: frozenset[Lack] = frozenset()
        self.many = 5
        self.usual = Shape.GROUP.value
        self.adapter: Adapter = self.another()
        self.edit = hands.edit
        self.repeat = hands.repeat
        self.calm, self.down, self.up = hands.calm, hands.down, hands.up

    async def begin(self) -> None:
        await self._hands.clear(self._rules)
        self.anna = await self._hands.user(self.name)
        self._other_bot = await self._hands.user("Other", bot=True)
        await self.adapter.connect()

    async def end(self) -> None:
        await self.adapter.close()

    def another(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, self._peer.token)

    def impatient(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, self._peer.token, silence=IMPATIENT)

    def denied(self) -> Adapter:
        return PeerAdapter(Platform.MATRIX, self._peer.url, "wrong")

    def has_threads(self, shape: str) -> bool:
        return self._rules.threads and shape in THREADED

    async def place(self, shape: str) -> Place:
        return Place(await self._hands.chat(Shape(shape), [self.anna], name="Team"))

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        uploads = [
            Upload(name=file.name, media_type=file.media_type, content=file.content)
            for file in files
        ]
        return await self._hands.say(self.anna, at.chat, text, thread=at.thread, files=uploads)

    async def command(self, at: Place, text: str) -> str:
        return await self._hands.command(self.anna, at.chat, text, thread=at.thread)

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self._hands.say(
            self.anna, at.chat, text, thread=at.thread, forwarded_from=author
        )

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self._hands.say(self.anna, at.chat, text, thread=at.thread, reply_to=message)

    async def press(self, message: str, label: str) -> None:
        await self._hands.press(self.anna, message, label)

    async def join(self, at: Place) -> None:
        await self._hands.join(self.anna, at.chat)

    async def delete_thread(self, at: Place) -> None:
        assert at.thread is not None
        await self._hands.delete_thread(at.thread)

    async def other_bot_says(self, at: Place, text: str) -> None:
        await self._hands.say(self._other_bot, at.chat, text, thread=at.thread)

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = await self._hands.look()
        return [
            Seen(
                message.id,
                Place(message.chat, message.thread),
                message.text,
                tuple(button.label for button in message.buttons),
            )
            for message in shown.messages
            if message.text == text
        ]

    async def typing(self, at: Place) -> int:
        shown = await self._hands.look(at.chat)
        return sum(seen.times for seen in shown.typing if seen.thread == at.thread)

    async def threads(self, at: Place) -> int:
        return len((await self._hands.look(at.chat)).threads)

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        method = "file" if act is Act.FETCH else act.value
        await self._hands.fail(method, trouble, seconds=seconds)

    async def inject(self, updates: Iterable[str]) -> None:
        await self._hands.inject(updates)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def specimen(update: Update, *required: Path) -> Specimen:
    everywhere: tuple[Path, ...] = (
        ("kind",), ("id",), ("chat",), ("chat", "id"), ("chat", "type"), ("chat", "members"),
        ("user",), ("user", "id"), ("user", "bot"),
    )  # fmt: skip
    built: dict[str, Any] = msgspec.to_builtins(update)
    return Specimen(built, (*everywhere, *required))


CHAT = WireChat(id="!group:1", type="group", name="Team", topic="work", members=3)
ANNA = WireUser(id="user:1", name="Anna", bot=False)
FILE = WireFile(id="file:1", name="a.txt", media_type="text/plain", size=3)
MESSAGE = WireMessage(id="message:1", text="hello", files=(FILE,))
IN_MESSAGE: tuple[Path, ...] = (
    ("message",), ("message", "id"), ("message", "text"), ("message", "files", 0, "id"),
    ("message", "files", 0, "name"), ("message", "files", 0, "media_type"),
    ("message", "files", 0, "size"),
)  # fmt: skip
SPECIMENS = (
    specimen(Said(id="update:1", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(Changed(id="update:2", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(Commanded(id="update:3", chat=CHAT, user=ANNA, message=MESSAGE), *IN_MESSAGE),
    specimen(
        Pressed(id="update:4", chat=CHAT, user=ANNA, message="message:1", data="a:1"),
        ("message",),
        ("data",),
    ),
    specimen(Joined(id="update:5", chat=CHAT, user=ANNA)),
)


@pytest.fixture(scope="module")
def peer() -> Generator[Peer]:
    with forked(FAKE) as peer:
        yield peer


def plugged(peer: Peer, rules: Rules, runner: asyncio.Runner) -> Generator[RemoteRig]:
    async def begin() -> tuple[PeerRig, Hands]:
        hands = peer.hands()
        rig = PeerRig(peer, hands, rules)
        await rig.begin()
        return rig, hands

    async def end() -> None:
        await rig.end()
        await hands.close()

    rig, hands = runner.run(begin())
    yield rig
    runner.run(end())


class TestWithEverything(RemoteContract):
    @pytest.fixture
    def rig(self, peer: Peer, runner: asyncio.Runner) -> Generator[RemoteRig]:
        yield from plugged(peer, FULL, runner)

    @pytest.fixture(params=[Shape.DM, Shape.CHANNEL, Shape.NO_THREADS, Shape.THREADS_REFUSED])
    def shape(self, request: pytest.FixtureRequest) -> str:
        """Whose threads begin with a message or not, or are not there, or refused. A group is the
        usual one."""
        return request.param


class TestWithNothing:
    """No threads, edits, buttons, typing, keys or markup: the part of the contract in which that
    makes a difference."""

    @pytest.fixture
    def rig(self, peer: Peer, runner: asyncio.Runner) -> Generator[RemoteRig]:
        yield from plugged(peer, BARE, runner)

    @pytest.fixture
    def shape(self) -> str:
        return Shape.GROUP

    test_a_thread = RemoteContract.test_a_reply_in_the_thread_that_was_opened_has_its_address
    test_what_happens = RemoteContract.test_all_that_happens_in_a_thread_has_its_address
    test_two_threads = RemoteContract.test_two_threads_and_two_chats_are_different_addresses
    test_a_deleted_thread = RemoteContract.test_a_deleted_thread_is_not_silently_the_chat
    test_titles = RemoteContract.test_titles_of_any_kind_open_a_thread
    test_own_messages = RemoteContract.test_own_messages_and_those_of_other_bots_do_not_come
    test_a_message = RemoteContract.test_a_message_is_seen_where_it_was_sent
    test_an_edit = RemoteContract.test_an_edit_changes_what_the_message_says
    test_a_button = RemoteContract.test_a_button_gives_its_data_back
    test_typing = RemoteContract.test_typing_is_shown_where_the_answer_will_be
    test_a_file = RemoteContract.test_a_file_is_seen_where_it_was_sent
    test_a_preview = RemoteContract.test_a_preview_is_no_message
    test_one_key_sends = RemoteContract.test_one_key_sends_one_message
    test_one_key_opens = RemoteContract.test_one_key_opens_one_thread

    @pytest.mark.parametrize("trouble", [Trouble.DROP_BEFORE, Trouble.DROP_AFTER])
    async def test_what_may_have_arrived_is_repeated(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        contract = RemoteContract()
        await contract.test_what_may_have_arrived_is_repeated_safely_under_its_key(rig, trouble)

    @pytest.mark.parametrize("act", [Act.EDIT, Act.TYPING, Act.OPEN_THREAD])
    async def test_what_it_cannot_do_fails_for_good(self, rig: RemoteRig, act: Act) -> None:
        await RemoteContract().test_a_failure_says_whether_to_try_again_and_whether_it_arrived(
            rig, act, Trouble.BUSY
        )
