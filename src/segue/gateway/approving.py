"""Asking a person in their chat whether the agent may do something: one question for one exact
call, answered once, there, by the owner. It outlives the gateway, and ends as the session moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from segue.core.address import Address
from segue.core.approval import Answer
from segue.core.errors import ApprovalOver
from segue.core.session import Session
from segue.core.transcript import ToolCall
from segue.platforms.base import Button
from segue.store import Store, Topic
from segue.store.approvals import Approval, ApprovalState
from segue.store.outbox import Draft
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
        question = _question(asked)
        await store.outbox.enqueue(question)
        self._open = question.key
        answer = await _answered(store, self._held, asked)
        if answer is None:
            await store.outbox.enqueue(
                Draft(
                    key=f"{question.key}:over",
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


def _question(asked: Approval) -> Draft:
    return Draft(
        key=f"approval:{asked.id}",
        address=asked.address,
        body=f"May I do this?\n\n{_fenced(asked.what)}",
        session_id=asked.session_id,
        buttons=tuple((label, f"{_PREFIX}:{asked.id}:{a}") for a, label in _LABELS.items()),
    )


def without_buttons(body: str, buttons: Sequence[Button]) -> str:
    """The same question for a platform that has no buttons."""
    asks = any(pressed(button.data) for button in buttons)
    return f"{body}\n\nAnswer /approve or /deny." if asks else body


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


async def answer(
    store: Store, owner: str, address: Address, answered: Answer, number: int | None = None
) -> str:
    """Answer that question, or the oldest that waits there; what to tell the person.
    ApprovalOver when there is none, or it is not theirs."""
    if number is None:
        waiting = await store.approvals.waiting_at(address)
        if not waiting:
            raise ApprovalOver(reason="nothing waits for your answer here")
        number = waiting[0].id
    await store.approvals.answer(number, owner, address, answered)
    return "Not allowed." if answered is Answer.NEVER else "Allowed."
