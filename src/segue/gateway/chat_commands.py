"""The context of commands typed in a chat."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from msgspec.structs import replace

from segue import commands, handoffs
from segue.approvals import questions
from segue.commands.base import PREFIX, Command, Where, bad_command
from segue.core.address import Address, HomeChannel, Platform
from segue.core.approval import Answer
from segue.core.errors import (
    AddressTaken,
    ConnectFailed,
    DeliveryFailed,
    NothingSaid,
    StoreError,
)
from segue.core.session import EndReason, Origin, Session
from segue.core.text import count, one_line
from segue.core.transcript import Message
from segue.gateway import messages, texts, turns
from segue.gateway.messages import PendingMessage
from segue.gateway.turns import ChatTurns
from segue.handoffs import HandoffRequest, greeting
from segue.store import (
    Topic,
    Tx,
    bindings,
    deliveries,
    errors,
    inbox,
    outbox,
    owners,
    release_requests,
    sessions,
    transcripts,
)
from segue.store import doors as stored_doors
from segue.store.bindings import RESUME, bring_back
from segue.store.outbox import Draft, OutgoingState
from segue.turns import HeldLease, hold

_LABEL_LENGTH = 40
_HOME = "h"
_MOVE = "m"
_SENT_POLL = 1.0
"""Seconds between two checks of a message that is being sent."""

logger = logging.getLogger(__name__)


class ChatCommands:
    """One command from a chat, and the operations available there."""

    where = Where.CHAT

    def __init__(
        self, chat_turns: ChatTurns, pending: PendingMessage, session: Session | None
    ) -> None:
        """`session` is the one of the chat, which may be elsewhere."""
        context = chat_turns.context
        self.store = context.store
        self.turns = context.turns
        self.owner = pending.owner
        self.zone = context.settings.zone
        self.session = session
        self.place = context.place(pending.address, inbound=pending.inbound)
        self._context = context
        self._chat_turns = chat_turns
        self._pending = pending
        self._notices = 0
        self.is_under_way = False
        """Whether the command goes on in the background. Its entry is finished there."""

    @property
    def address(self) -> Address:
        return self._pending.address

    @classmethod
    async def of(cls, chat_turns: ChatTurns, pending: PendingMessage) -> ChatCommands:
        store = chat_turns.context.store
        address = pending.address
        known = await bindings.get(store, address) or await stored_doors.get(store, address)
        session = await sessions.get(store, known.session_id) if known else None
        is_mine = session is not None and session.owner == pending.owner
        return cls(chat_turns, pending, session if is_mine else None)

    def _here(self) -> Session | None:
        """The session, if it is in this chat."""
        is_here = self.session is not None and self.session.address == self.address
        return self.session if is_here else None

    # All commands

    async def begun(self) -> Session:
        self.session = await self._chat_turns.session(self._pending)
        return self.session

    @contextlib.asynccontextmanager
    async def in_hand(self) -> AsyncGenerator[HeldLease]:
        session = await self.begun()
        async with hold(
            self.store, session.id, self._context.name, wait_seconds=turns.HOLD_TIMEOUT
        ) as held:
            yield held

    async def notice(self, text: str, buttons: tuple[tuple[str, str], ...] = ()) -> None:
        self._notices += 1
        about = f"{self._notices}"
        draft = messages.notice(self._pending.inbox_id, self.address, text, about)
        await outbox.enqueue(self.store, replace(draft, buttons=buttons))

    async def list_commands(self, listed: Sequence[Command]) -> None:
        lines = [f"- `{command.usage}`: {command.summary}" for command in listed]
        await self.notice("\n".join(lines))

    async def say(self, message: Message | None) -> None:
        session = await self.begun()
        # The turn gets a separate inbox entry: after a crash it is resumed, and the command is not.
        no = await self.store.write(_begin_turn, self._pending, session.id)
        again = replace(self._pending, inbox_id=no, session_id=session.id)
        taken_up = self._chat_turns.taken_up
        taken_up.add(no, again.address.platform)
        try:
            is_here = await self._chat_turns.take_turn(again, session, message)
        except StoreError:
            taken_up.discard(no)  # it is taken up again when the store is back
            raise
        if not is_here:
            await self._chat_turns.conclude(again)

    async def fresh(self, title: str | None) -> None:
        former = self.session
        await self.store.write(_begin_another, self.address, self.owner, title, str(Path.home()))
        if former is None:
            await self.notice("A new session.")
            return
        back = f"The one before stays as it is: {PREFIX}resume {one_line(former.name)}"
        await self.notice(f"A new session. {back}", (bring_back(former),))

    async def resume(self, session: Session) -> None:
        former = self._here()
        if former is not None and session.id == former.id:
            # Its reset may be due: the next message must not replace it.
            await sessions.reopen(self.store, session.id)
            name = one_line(session.label)
            is_over = session.ended is not None
            await self.notice(f"**{name}** continues here." if is_over else "It is here already.")
            return
        door = await stored_doors.get(self.store, self.address)
        is_back = door is not None and door.session_id == session.id
        seen = door.seq if door and is_back else None
        was_working = await self._chat_turns.stop_session(session)
        async with hold(
            self.store, session.id, self.place.holder, take_over=True, address=self.address
        ):
            last = await transcripts.last(self.store, session.id, 40, after=seen or 0)
        # Where the platform shows the session itself, a recap would repeat it.
        shows_history = self._context.adapters[self.address.platform].capabilities.history
        arrived = f"**{one_line(session.label)}** {'is back' if is_back else 'continues'} here."
        lines = [] if shows_history else [arrived]
        if was_working:
            lines.append(texts.STOPPED_ELSEWHERE)
        buttons = ()
        if former is not None:
            label = one_line(former.label)
            name = await self.store.read(sessions.typed_name, former)
            lines.append(f"{label} was here before: {PREFIX}resume {name} brings it back.")
            buttons = (bring_back(former),)
        if hint := self._context.how_to_address(self.address):
            lines.append(hint)
        recap = "" if shows_history else last.recap()
        if text := "\n".join(lines) + greeting.quoted(recap):
            await self.notice(text, buttons)

    # Chat-only commands

    async def offer(self, offered: Sequence[Session]) -> None:
        if not offered:
            await self.notice("There are no sessions with a title yet.")
            return
        lines = [f"{n}. {one_line(s.name)} ({_where(s)})" for n, s in enumerate(offered, 1)]
        hint = f"Type {PREFIX}resume and a number or a name to bring one here."
        buttons = tuple(
            (f"{n}. {one_line(s.name, _LABEL_LENGTH)}", f"{RESUME}:{s.id}")
            for n, s in enumerate(offered, 1)
        )
        await self.notice("\n".join([*lines, "", hint]), buttons)

    async def offer_platforms(self, text: str, ready: Sequence[Platform]) -> None:
        others = [platform for platform in ready if platform != self.address.platform]
        buttons = tuple((f"Move to {platform}", f"{_MOVE}:{platform}") for platform in others)
        await self.notice(text, buttons)

    async def hand_off(self, request: HandoffRequest, *, lan: bool = False) -> None:
        if lan:
            reason = "--lan works only in the terminal"
            raise bad_command(f"{PREFIX}move {request.platform}", reason)
        if self.session is None:
            raise NothingSaid
        session = await self.begun()
        home = await handoffs.destination(self.store, session.id, request)
        here = (self.address.platform, self.address.chat_id)
        if (home.platform, home.chat_id) == here and not request.new_thread:
            await self.notice("It is here already.")
            return
        # Not here: other commands, such as /stop, would wait.
        self.is_under_way = True
        self._chat_turns.under_way.add(self._pending.inbox_id)
        self._chat_turns.in_background(
            self._chat_turns.hand_off(self._pending, session.id, request)
        )

    async def stop(self) -> None:
        session = self._here()
        if session is not None and await release_requests.withdraw(self.store, session.id):
            await self.notice(handoffs.STAYS)
            return
        if not self._chat_turns.stop(self.address):
            await self.notice(texts.NOTHING_TO_STOP)

    async def answer(self, answer: Answer, number: int | None) -> None:
        reply = await questions.answer_typed(self.store, self.owner, self.address, number, answer)
        if reply:
            await self.notice(reply)

    async def show(self, number: int | None) -> None:
        await questions.show(self.store, self.owner, self.address, number)

    async def set_home(self, *, confirmed: bool) -> None:
        inbound = self._pending.inbound
        if inbound.readers and not confirmed:
            draft = self._home_notice(
                f"Handoffs would arrive here, where {one_line(inbound.readers)} can read them. Type"
                f" {PREFIX}sethome yes if that is what you want."
            )
            failure = await self._send_and_wait(
                replace(draft, buttons=(("Yes, here", f"{_HOME}:yes"),))
            )
        else:
            home = await self._home_here()
            former = await self.store.write(_set_home, self.owner, home)
            arrive = f"Handoffs to {home.platform} arrive here from now on."
            failure = await self._send_and_wait(self._home_notice(arrive))
            if failure is not None:
                await self.store.write(_restore_home, self.owner, home, former)
        if failure is not None:
            await self._report_no_home(failure, f"typed {PREFIX}sethome")

    async def _home_here(self) -> HomeChannel:
        """This chat as a home channel, with who can read it now."""
        try:
            audience = await self._context.audiences.current(self.owner, self.address)
        except (DeliveryFailed, ConnectFailed) as error:  # the first handoff asks again
            logger.warning("readers not known address=%s: %s", self.address, error)
            audience = None
        name = one_line(self._pending.inbound.chat_name, 80)
        return HomeChannel(address=self.address, name=name, audience=audience)

    async def confirm_new_home(self) -> None:
        """Wait for the reply to the code that made this chat the home channel. If it does not
        arrive, the chat does not remain the home channel."""
        inbound = self._pending.inbound
        reply = messages.pairing_reply(inbound.text, self.address, texts.PAIRED_AT_HOME)
        failure = await self._send_and_wait(reply)
        if failure is not None:
            await self.store.write(_restore_home, self.owner, messages.as_home(inbound), None)
            await self._report_no_home(failure, "sent the code")

    def _home_notice(self, text: str) -> Draft:
        return messages.notice(self._pending.inbox_id, self.address, text, "home")

    async def _send_and_wait(self, draft: Draft) -> str | None:
        """Send the answer to /sethome or to a code, unless it is queued already. Return why it did
        not arrive, or None if it did. A platform can pass on a command from a chat in which the bot
        cannot write."""
        async with self.store.listen(Topic.SENT) as wake:
            await outbox.enqueue(self.store, draft)
            while (sent := await outbox.get(self.store, draft.key)) and sent.finished is None:
                await wake.wait(_SENT_POLL)
        if sent is None or sent.state is not OutgoingState.FAILED:
            return None
        return sent.error or ""

    async def _report_no_home(self, reason: str, act: str) -> None:
        """Tell the owner, in another chat, that this one is not their home channel. `act` is what
        they did here."""
        logger.warning("home channel refused address=%s: %s", self.address, reason)
        if (seen := await self._other_chat()) is None:
            return
        chat = one_line(self._pending.inbound.chat_name, 80)
        body = texts.not_home(self.address.platform, reason, act, chat)
        await outbox.enqueue(
            self.store, messages.notice(self._pending.inbox_id, seen, body, "no home")
        )

    async def _other_chat(self) -> Address | None:
        """Another chat in which the owner reads the bot: a home channel, or one of their sessions.
        One on the same platform comes first."""
        homes = [home.address for home in await owners.homes(self.store, self.owner)]
        bound = [
            binding.address for binding in await bindings.list_bindings(self.store, self.owner)
        ]
        others = [it for it in [*homes, *bound] if it.platform is not Platform.LOCAL]
        others = [it for it in others if it.chat_id != self.address.chat_id]
        here = [it for it in others if it.platform is self.address.platform]
        return next(iter([*here, *others]), None)

    async def greet(self, code: str) -> None:
        await owners.introduced(self.store, self.owner)  # no second introduction later
        lines = (texts.CODE_REFUSED, texts.PAIRING) if code else (texts.INTRODUCTION, texts.PAIRING)
        await self.notice(" ".join(lines))

    async def who_am_i(self) -> None:
        sender = self._pending.inbound.sender
        name = f"{one_line(sender.name)}, " if sender.name else ""
        await self.notice(
            f"{name}{sender.platform} user {sender.user_id}, paired with the owner {self.owner}."
            f"\nThis chat is {self.address}."
        )

    async def press(self) -> None:
        """Run the action of a button."""
        match self._pending.inbound.typed.split(":", 1):
            case [kind, session_id] if kind == RESUME:
                await self.resume(await sessions.find(self.store, self.owner, session_id))
            case _ if self._pending.inbound.typed == turns.NEW_SESSION and self._here() is None:
                await self.fresh(None)
            case [kind, _] if kind == _HOME:
                await self.set_home(confirmed=True)
            case [kind, platform] if kind == _MOVE:
                await self.hand_off(HandoffRequest(handoffs.platform_named(platform)))
            case _ if commands.is_command(self._pending.inbound.typed):
                await commands.run(self, self._pending.inbound.typed)
            case [kind, number] if kind == questions.SHOW and number.isdecimal():
                await self.show(int(number))
            case _:
                raise bad_command(f"{PREFIX}help", "that button is no longer known")


def _begin_turn(tx: Tx, command: PendingMessage, session_id: str) -> int:
    """Finish the command, and enter the turn with which it goes on. Return the number of that
    entry, which the session has taken."""
    update_id = f"again:{command.inbox_id}"
    body = messages.encode(command.inbound)
    no = inbox.record(tx, "", update_id, command.address, body)
    if no is None:
        raise errors.being_answered()
    inbox.take(tx, [no], session_id)
    inbox.finish(tx, [command.inbox_id])
    return no


def _set_home(tx: Tx, owner: str, home: HomeChannel) -> HomeChannel | None:
    """Set the home channel, and return the former one."""
    former = _home_on(tx, owner, home.platform)
    owners.set_home(tx, owner, home)
    deliveries.release(tx, home.platform)
    return former


def _restore_home(tx: Tx, owner: str, home: HomeChannel, former: HomeChannel | None) -> None:
    """Replace `home` by the former home channel, unless the owner has chosen another since."""
    if _home_on(tx, owner, home.platform) != home:
        return
    if former is None:
        owners.clear_home(tx, owner, home.platform)
    else:
        owners.set_home(tx, owner, former)


def _home_on(tx: Tx, owner: str, platform: Platform) -> HomeChannel | None:
    homes = owners.homes(tx, owner)
    return next((home for home in homes if home.platform is platform), None)


def _where(session: Session) -> str:
    return f"{session.where}, {count(session.messages, 'message')}"


def _begin_another(tx: Tx, address: Address, owner: str, title: str | None, cwd: str) -> None:
    there = bindings.get(tx, address)
    if there is not None:
        if sessions.found(tx, there.session_id).owner != owner:
            raise AddressTaken
        sessions.end(tx, there.session_id, EndReason.NEW)
    parent = there.session_id if there else None
    fresh = sessions.create(tx, owner, address.platform, title=title, parent=parent, cwd=cwd)
    bindings.rebind(tx, fresh.id, address, Origin.MESSAGE)
