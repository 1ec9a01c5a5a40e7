"""Ask the owner in their chat whether the agent may run a tool. A question covers one exact call
and can be answered once. It survives a gateway restart and becomes void when the session moves.

A call that is too long for one question is shown in part, and can then only be denied or shown in
full. It can be allowed below its last line. However the owner answers, by a button, a reaction or a
command, the store refuses to allow what was not shown in full: then it is shown, and asked again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from segue.approvals import queries as approvals
from segue.approvals.queries import Approval, ApprovalState, Visibility, part_key, whole_key
from segue.core import approval
from segue.core.address import Address
from segue.core.approval import Answer, Description
from segue.core.errors import ApprovalNotShown, UserError
from segue.core.text import count
from segue.core.transcript import ToolCall
from segue.platforms.base import Button
from segue.store import Store, Topic, outbox
from segue.store.lease_keeper import HeldLease
from segue.store.outbox import Draft, OutgoingState

ANSWER_TIMEOUT = 15 * 60.0
"""Seconds until an unanswered question expires."""
RUN_ANSWER_TIMEOUT = 12 * 3600.0
"""The same for the run of a job, at a time that the owner did not choose to be there."""
POLL_SECONDS = 5.0
SENT_SECONDS = 2.0
"""How long a press may be faster than the record that its message was sent."""
LONGEST = 100_000
"""The most characters of a call that a chat shows. A longer one can only be denied there."""
_SENT_POLL = 0.2

_LABELS = {Answer.ONCE: "Allow", Answer.SESSION: "Allow in this session", Answer.NEVER: "Deny"}
_OUTCOMES = {
    Answer.ONCE: "✓ Allowed",
    Answer.SESSION: "✓ Allowed in this session",
    Answer.NEVER: "✗ Not allowed",
    None: "✗ Not done",
}
_HANDED_OFF = "→ Handed off with the conversation"
_TIMED_OUT = "There was no answer in time, so it was not done."
_PREFIX = "a"
SHOW = "w"
"""Prefix of the callback data of the "Show all" button. The web page uses it too."""
_ASKING = "asked"
"""The name of a question that shows its whole call, for its outbox key."""

ShowOutcome = Callable[[Address, str, str], None]
"""Called with a question's address, its outbox key and the outcome to show on it."""


class Questions:
    """The approval questions of one turn, asked at `address` one at a time."""

    def __init__(
        self,
        store: Store,
        held: HeldLease,
        address: Address,
        show_outcome: ShowOutcome,
        *,
        in_run: bool = False,
    ) -> None:
        """`in_run`: for the run of a job, which keeps no grant for later runs."""
        self._store = store
        self._held = held
        self._address = address
        self._show_outcome = show_outcome
        self._in_run = in_run
        self._open: str | None = None
        """Outbox key of the question that is still open."""

    async def approve(self, call: ToolCall, what: Description, fingerprint: str) -> Answer:
        store = self._store
        seconds = RUN_ANSWER_TIMEOUT if self._in_run else ANSWER_TIMEOUT
        asked = await approvals.ask(
            store, self._held.lease, call.id, fingerprint, str(what), self._address, seconds=seconds
        )
        asking = question(asked, what, in_run=self._in_run)
        await outbox.enqueue(store, asking)
        self._open = part_key(asked.id)
        answer = await _answered(store, self._held, asked, asking.key)
        if answer is None and not await outbox.withdraw(store, asking.key):
            key = f"{part_key(asked.id)}:over"
            await outbox.enqueue(store, replace(asking, key=key, body=_TIMED_OUT, buttons=()))
        self.over(answer)
        return answer or Answer.MISSING

    def over(self, answer: Answer | None = None) -> None:
        """Close the open question: show the outcome and remove its buttons."""
        self._close(_OUTCOMES[answer])

    def handed_off(self) -> None:
        """Close the open question: its turn goes on elsewhere, and asks again there."""
        self._close(_HANDED_OFF)

    def _close(self, outcome: str) -> None:
        if self._open is not None:
            self._show_outcome(self._address, self._open, outcome)
            self._open = None


async def _answered(store: Store, held: HeldLease, asked: Approval, key: str) -> Answer | None:
    """Wait for the owner's answer. Return None if the question expires or becomes void, or if it
    cannot be delivered under its `key`, so that no one can answer it."""
    async with store.listen(Topic.APPROVALS) as wake:
        while True:
            now = await approvals.get(store, asked.id)
            if now is None or now.state not in (ApprovalState.WAITING, ApprovalState.ANSWERED):
                return None
            if now.state is ApprovalState.ANSWERED:
                return await approvals.use(store, held.lease, asked.id)
            sending = await outbox.get(store, key)
            if sending is not None and sending.state is OutgoingState.FAILED:
                return None
            await wake.wait(POLL_SECONDS)


def question(asked: Approval, what: Description, *, in_run: bool = False) -> Draft:
    """The message that asks, including the number that a typed answer must name."""
    shown = approval.excerpt(what)
    number = asked.id
    title = f"May I do this? This is question {number}."
    if in_run:  # for a place where it arrives without its buttons
        title += f" Type /show {number} to see it again."
    body = f"{title}\n\n{fenced(shown.text)}"
    if shown.is_whole:
        key = whole_key(number, _ASKING)
        return _draft(asked, key, body, _answers(number, in_run=in_run))
    lines = f"The whole call has {count(shown.lines, 'line')}"
    deny = (_LABELS[Answer.NEVER], _data(number, Answer.NEVER))
    if len(asked.what) > LONGEST:
        body += f"\n\n{lines}, too many to show here, so it cannot be allowed here."
        return _draft(asked, part_key(number), body, [deny])
    body += f"\n\n{lines}. Type /show {number} to see all of it. Then you can allow it."
    return _draft(asked, part_key(number), body, [("Show all", f"{SHOW}:{number}"), deny])


def _whole_question(asked: Approval) -> Draft:
    """The message that shows the whole call and asks again, if the question is still open."""
    if len(asked.what) > LONGEST:
        raise UserError(
            f"Question {asked.id} has {len(asked.what):,} characters, too many to show here, so it"
            f" cannot be allowed here. Type /deny {asked.id}, or take the conversation to a"
            " terminal."
        )
    lines = count(asked.what.count("\n") + 1, "line")
    body = f"Question {asked.id}, all {lines}:\n\n{fenced(approval.full_text(asked.what))}"
    key = whole_key(asked.id, secrets.token_hex(4))
    if asked.state is not ApprovalState.WAITING:
        return _draft(asked, key, body, [])
    buttons = _answers(asked.id, in_run=asked.in_run)
    return _draft(asked, key, f"{body}\n\nMay I do this? This is question {asked.id}.", buttons)


def _draft(asked: Approval, key: str, body: str, buttons: Sequence[tuple[str, str]]) -> Draft:
    return Draft(
        key=key,
        address=asked.address,
        body=body,
        session_id=asked.session_id,
        buttons=tuple(buttons),
    )


def _answers(number: int, *, in_run: bool) -> list[tuple[str, str]]:
    return [
        (label, _data(number, answer))
        for answer, label in _LABELS.items()
        if not (in_run and answer is Answer.SESSION)
    ]


def _data(number: int, answer: Answer) -> str:
    return f"{_PREFIX}:{number}:{answer}"


def typed(data: str) -> str:
    """The command that stands for a button of a question. Empty for any other button."""
    if data.startswith(f"{SHOW}:"):
        return f"/show {data.removeprefix(f'{SHOW}:')}"
    found = pressed(data)
    if found is None:
        return ""
    number, answer = found
    command = _COMMANDS.get(answer)
    return "" if command is None else command.format(number=number)


_COMMANDS = {
    Answer.ONCE: "/approve {number}",
    Answer.SESSION: "/approve {number} session",
    Answer.NEVER: "/deny {number}",
}


def without_buttons(body: str, buttons: Sequence[Button]) -> str:
    """The question's text for a platform without buttons."""
    answers = [found for found in (pressed(button.data) for button in buttons) if found]
    if not answers:
        return body
    number, _ = answers[0]
    if any(answer is Answer.ONCE for _, answer in answers):
        return f"{body}\n\nAnswer /approve {number} or /deny {number}."
    return f"{body}\n\nAnswer /deny {number} to refuse it."


_EMOJI = {Answer.ONCE: "👍", Answer.SESSION: "❤️", Answer.NEVER: "👎"}
_SHOW_EMOJI = "😮"


def emoji(data: str) -> str | None:
    """The reaction that stands for a button of a question, in every question the same. None for any
    other button."""
    if data.startswith(f"{SHOW}:"):
        return _SHOW_EMOJI
    found = pressed(data)
    return _EMOJI[found[1]] if found else None


def fenced(text: str) -> str:
    """Return `text` as a code block, with a fence longer than any fence inside it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def pressed(data: str) -> tuple[int, Answer] | None:
    """Parse the callback data of an approval button. Return None for any other button."""
    match data.split(":"):
        case [prefix, number, answer] if prefix == _PREFIX and answer in _LABELS:
            return (int(number), Answer(answer)) if number.isdecimal() else None
        case _:
            return None


async def answer_pressed(
    store: Store, owner: str, address: Address, number: int, answered: Answer
) -> None:
    """Record the answer of a button. If the call was not shown in full, show it and ask again.

    Raise UserError if the question is not for this owner at this address, or if it is closed.
    """
    deadline = asyncio.get_running_loop().time() + SENT_SECONDS
    async with store.listen(Topic.SENT) as wake:
        while True:
            try:
                await _answer(store, owner, address, number, answered)
            except ApprovalNotShown:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await wake.wait(_SENT_POLL)
            else:
                return


async def answer_typed(
    store: Store, owner: str, address: Address, number: int | None, answered: Answer
) -> str:
    """Record a typed answer, and return the confirmation. If the call was not shown in full, show
    it, ask again and return nothing.

    The answer must name the question: no platform says when a message was written, so it may be
    older than the question that is open when it arrives.
    """
    if number is None:
        number = await _waiting(store, owner, address)
        raise UserError(
            f"Give the number of the question. Type /approve {number} to allow it, /deny {number}"
            f" to refuse it, or /show {number} to see it again."
        )
    if not await _answer(store, owner, address, number, answered):
        return ""
    return "Not allowed." if answered is Answer.NEVER else "Allowed."


async def _answer(
    store: Store, owner: str, address: Address, number: int, answered: Answer
) -> bool:
    """Record the answer, or show the whole call if the owner has seen only a part of it. Return
    whether it was recorded. Raise ApprovalNotShown if all of it is still on its way to them."""
    try:
        await approvals.give(store, number, owner, address, answered)
    except ApprovalNotShown:
        asked = await _own(store, owner, address, number)
        if await approvals.visibility(store, asked) is not Visibility.PARTLY:
            raise
        await outbox.enqueue(store, _whole_question(asked))
        return False
    return True


async def show(store: Store, owner: str, address: Address, number: int | None) -> None:
    """Show the whole call that a question is about, and ask again if it is open. Raise
    UserError if the question belongs to another owner or address."""
    if number is None:
        number = await _waiting(store, owner, address)
    asked = await _own(store, owner, address, number)
    await outbox.enqueue(store, _whole_question(asked))


async def _own(store: Store, owner: str, address: Address, number: int) -> Approval:
    asked = await approvals.get(store, number)
    if asked is None or (asked.owner, asked.address) != (owner, address):
        raise approvals.unknown_question(number)
    return asked


async def _waiting(store: Store, owner: str, address: Address) -> int:
    """The number of the oldest question at this address that is open for the owner."""
    for asked in await approvals.waiting_at(store, address):
        if asked.owner == owner:
            return asked.id
    raise approvals.question_closed("nothing waits for your answer here")
