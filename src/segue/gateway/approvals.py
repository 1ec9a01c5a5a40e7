"""Ask the owner in their chat whether the agent may run a tool. A question covers one exact call
and can be answered once. It survives a gateway restart and becomes void when the session moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from segue.core import excerpt
from segue.core.address import Address
from segue.core.approval import Answer
from segue.core.errors import ApprovalNotShown, ApprovalOver, ApprovalUnnamed, BadCommand
from segue.core.text import count
from segue.core.transcript import ToolCall
from segue.platforms.base import Button
from segue.store import Store, Topic
from segue.store.approvals import Approval, ApprovalState
from segue.store.outbox import Draft, OutgoingState
from segue.turns import HeldLease

ANSWER_TIMEOUT = 15 * 60.0
"""Seconds until an unanswered question expires."""
RUN_ANSWER_TIMEOUT = 12 * 3600.0
"""The same for the run of a job, at a time that the owner did not choose to be there."""
POLL_SECONDS = 5.0

_LABELS = {Answer.ONCE: "Allow", Answer.SESSION: "Allow in this session", Answer.NEVER: "Deny"}
_OUTCOMES = {
    Answer.ONCE: "✓ Allowed",
    Answer.SESSION: "✓ Allowed in this session",
    Answer.NEVER: "✗ Not allowed",
    None: "✗ Not done",
}
_TIMED_OUT = "There was no answer in time, so it was not done."
_PREFIX = "a"
SHOW = "w"
"""Prefix of the callback data of the "Show all" button. The web page uses it too."""

Settle = Callable[[Address, str, str], None]
"""Called with a question's address, its outbox key and the outcome to show on it."""


class Questions:
    """The approval questions of one turn, asked at `address` one at a time."""

    def __init__(
        self,
        store: Store,
        held: HeldLease,
        address: Address,
        settle: Settle,
        *,
        in_run: bool = False,
    ) -> None:
        """`in_run`: for the run of a job, which keeps no grant for later runs."""
        self._store = store
        self._held = held
        self._address = address
        self._settle = settle
        self._in_run = in_run
        self._open: str | None = None
        """Outbox key of the question that is still open."""

    async def approve(self, call: ToolCall, what: str, fingerprint: str) -> Answer:
        store = self._store
        seconds = RUN_ANSWER_TIMEOUT if self._in_run else ANSWER_TIMEOUT
        asked = await store.approvals.ask(
            self._held.lease, call.id, fingerprint, what, self._address, seconds=seconds
        )
        asking = question(asked, in_run=self._in_run)
        await store.outbox.enqueue(asking)
        self._open = asking.key
        answer = await _answered(store, self._held, asked)
        if answer is None:
            over = replace(asking, key=f"{asking.key}:over", body=_TIMED_OUT, buttons=())
            await store.outbox.enqueue(over)
        self.over(answer)
        return answer or Answer.MISSING

    def over(self, answer: Answer | None = None) -> None:
        """Close the open question: show the outcome and remove its buttons."""
        if self._open is not None:
            self._settle(self._address, self._open, _OUTCOMES[answer])
            self._open = None


async def _answered(store: Store, held: HeldLease, asked: Approval) -> Answer | None:
    """Wait for the owner's answer. Return None if the question expires or becomes void, or if it
    cannot be delivered, so that no one can answer it."""
    async with store.listen(Topic.APPROVALS) as wake:
        while True:
            now = await store.approvals.get(asked.id)
            if now is None or now.state not in (ApprovalState.WAITING, ApprovalState.ANSWERED):
                return None
            if now.state is ApprovalState.ANSWERED:
                return await store.approvals.use(held.lease, asked.id)
            sending = await store.outbox.get(_key(asked.id))
            if sending is not None and sending.state is OutgoingState.FAILED:
                return None
            await wake.wait(POLL_SECONDS)


def question(asked: Approval, *, in_run: bool = False) -> Draft:
    """The message that asks, including the number that a typed answer must name."""
    shown = excerpt.excerpt(asked.what)
    body = f"May I do this? (question {asked.id})\n\n{fenced(shown.text)}"
    buttons = [(label, f"{_PREFIX}:{asked.id}:{a}") for a, label in _LABELS.items()]
    if in_run:
        buttons = [button for button in buttons if button[0] != _LABELS[Answer.SESSION]]
    if not shown.is_whole:
        lines = count(shown.lines, "line")
        body += f"\n\nThe whole call has {lines}. Type /show {asked.id} to see all of it."
        buttons.append(("Show all", f"{SHOW}:{asked.id}"))
    return Draft(
        key=_key(asked.id),
        address=asked.address,
        body=body,
        session_id=asked.session_id,
        buttons=tuple(buttons),
    )


def _key(number: int) -> str:
    return f"approval:{number}"


def without_buttons(body: str, buttons: Sequence[Button]) -> str:
    """The question's text for a platform without buttons."""
    for number, _ in filter(None, (pressed(button.data) for button in buttons)):
        return f"{body}\n\nAnswer /approve {number} or /deny {number}."
    return body


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


async def answer(store: Store, owner: str, address: Address, number: int, answered: Answer) -> str:
    """Record the answer and return the confirmation. Raise ApprovalOver if the question is not open
    for this owner at this address."""
    await store.approvals.answer(number, owner, address, answered)
    return "Not allowed." if answered is Answer.NEVER else "Allowed."


async def answer_typed(
    store: Store, owner: str, address: Address, number: int | None, answered: Answer
) -> str:
    """Record a typed answer. It must name the question: no platform says when a message was
    written, so it may be older than the question that is open when it arrives."""
    if number is None:
        raise ApprovalUnnamed(number=await _waiting(store, owner, address))
    sending = await store.outbox.get(_key(number))
    if sending is not None and sending.state in (OutgoingState.QUEUED, OutgoingState.FAILED):
        raise ApprovalNotShown(number=number)
    return await answer(store, owner, address, number, answered)


async def show(
    store: Store, owner: str, address: Address, number: int | None, page: int = 1
) -> str:
    """One page of the whole call that a question is about. Raise ApprovalOver if the question
    belongs to another owner or address."""
    if number is None:
        number = await _waiting(store, owner, address)
    asked = await store.approvals.get(number)
    if asked is None or (asked.owner, asked.address) != (owner, address):
        raise ApprovalOver(reason="it is not yours")
    pages = excerpt.pages(asked.what)
    if page > len(pages):
        reason = f"there are {count(len(pages), 'page')}"
        raise BadCommand(usage=f"/show {number} {len(pages)}", reason=reason)
    more = f"\n\nType /show {number} {page + 1} to see the next page." * (page < len(pages))
    title = f"Question {number}, page {page} of {len(pages)}:"
    return f"{title}\n\n{fenced(pages[page - 1].rstrip())}{more}"


async def _waiting(store: Store, owner: str, address: Address) -> int:
    """The number of the oldest question at this address that is open for the owner."""
    for asked in await store.approvals.waiting_at(address):
        if asked.owner == owner:
            return asked.id
    raise ApprovalOver(reason="nothing waits for your answer here")
