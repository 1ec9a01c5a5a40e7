"""Asking a person in their chat whether the agent may do something: one question for one exact
call, answered once, there, by the owner. It outlives the gateway, and ends as the session moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from segue.core import excerpt
from segue.core.address import Address
from segue.core.approval import Answer
from segue.core.errors import ApprovalNotShown, ApprovalOver, ApprovalUnnamed, BadCommand
from segue.core.session import Session
from segue.core.text import count
from segue.core.transcript import ToolCall
from segue.platforms.base import Button
from segue.store import Store, Topic
from segue.store.approvals import Approval, ApprovalState
from segue.store.outbox import Draft, OutgoingState
from segue.turns import Held

SECONDS = 15 * 60.0
"""How long a question waits for its answer."""
LOOK = 5.0

_LABELS = {Answer.ONCE: "Allow", Answer.SESSION: "Allow in this session", Answer.NEVER: "Deny"}
_OUTCOMES = {
    Answer.ONCE: "✓ Allowed",
    Answer.SESSION: "✓ Allowed in this session",
    Answer.NEVER: "✗ Not allowed",
    None: "✗ Not done",
}
_PREFIX = "a"
SHOW = "w"
"""Begins the data of the button that shows the whole call. The page knows it too."""

Settle = Callable[[Address, str, str], None]
"""Takes where a question stands and its key, and lets it say what came of it."""


class Questions:
    """Those of one turn, asked at `address`, one after the other."""

    def __init__(
        self, store: Store, held: Held, session: Session, address: Address, settle: Settle
    ) -> None:
        self._store = store
        self._held = held
        self._session_id = session.id
        self._address = address
        self._settle = settle
        self._open: str | None = None
        """The key of the one that waits."""

    async def approve(self, call: ToolCall, what: str, fingerprint: str) -> Answer:
        store = self._store
        asked = await store.approvals.ask(
            self._held.lease,
            call.id,
            fingerprint,
            what,
            self._address,
            seconds=SECONDS,
        )
        asking = question(asked)
        await store.outbox.enqueue(asking)
        self._open = asking.key
        answer = await _answered(store, self._held, asked)
        if answer is None:
            await store.outbox.enqueue(
                Draft(
                    key=f"{asking.key}:over",
                    address=self._address,
                    body="Nobody answered in time, so it was not done.",
                    session_id=self._session_id,
                )
            )
        self.over(answer)
        return answer or Answer.NEVER

    def over(self, answer: Answer | None = None) -> None:
        """Nothing more can be answered: what was asked says so, without its buttons."""
        if self._open is not None:
            self._settle(self._address, self._open, _OUTCOMES[answer])
            self._open = None


async def _answered(store: Store, held: Held, asked: Approval) -> Answer | None:
    """The person's answer, once there is one; None when the question is over without."""
    async with store.listen(Topic.APPROVALS) as wake:
        while True:
            now = await store.approvals.get(asked.id)
            if now is None or now.state not in (ApprovalState.WAITING, ApprovalState.ANSWERED):
                return None
            if now.state is ApprovalState.ANSWERED:
                return await store.approvals.use(held.lease, asked.id)
            await wake.wait(LOOK)


def question(asked: Approval) -> Draft:
    """The message that asks, with the number that an answer has to name."""
    shown = excerpt.excerpt(asked.what)
    body = f"May I do this? (question {asked.id})\n\n{_fenced(shown.text)}"
    buttons = [(label, f"{_PREFIX}:{asked.id}:{a}") for a, label in _LABELS.items()]
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
    """The same question for a platform that has no buttons."""
    for number, _ in filter(None, (pressed(button.data) for button in buttons)):
        return f"{body}\n\nAnswer /approve {number} or /deny {number}."
    return body


def _fenced(text: str) -> str:
    """As code, whatever is in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def pressed(data: str) -> tuple[int, Answer] | None:
    """The question and the answer that a button of ours stands for; None for another's."""
    match data.split(":"):
        case [prefix, number, answer] if prefix == _PREFIX and answer in set(Answer):
            return (int(number), Answer(answer)) if number.isdecimal() else None
        case _:
            return None


async def answer(store: Store, owner: str, address: Address, number: int, answered: Answer) -> str:
    """Answer that question, and return what to tell the person. ApprovalOver when it does not wait
    for this owner in this place."""
    await store.approvals.answer(number, owner, address, answered)
    return "Not allowed." if answered is Answer.NEVER else "Allowed."


async def answer_typed(
    store: Store, owner: str, address: Address, number: int | None, answered: Answer
) -> str:
    """The same for an answer that is typed. It has to name the question, for no platform says when
    a message was written: it may be older than the question that waits when it arrives."""
    if number is None:
        raise ApprovalUnnamed(number=await _waiting(store, owner, address))
    sending = await store.outbox.get(_key(number))
    if sending is not None and sending.state in (OutgoingState.QUEUED, OutgoingState.FAILED):
        raise ApprovalNotShown(number=number)
    return await answer(store, owner, address, number, answered)


async def show(
    store: Store, owner: str, address: Address, number: int | None, page: int = 1
) -> str:
    """A page of the whole call that a question is about; ApprovalOver when it is not theirs."""
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
    return f"{title}\n\n{_fenced(pages[page - 1].rstrip())}{more}"


async def _waiting(store: Store, owner: str, address: Address) -> int:
    """The number of the oldest question that waits there for that owner."""
    for asked in await store.approvals.waiting_at(address):
        if asked.owner == owner:
            return asked.id
    raise ApprovalOver(reason="nothing waits for your answer here")
