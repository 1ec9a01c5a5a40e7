"""Asking a person in their chat whether the agent may do something: one question for one exact
call, answered once, there, by the owner. It outlives the gateway, and ends as the session moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segue.agent.approvals import fingerprint
from segue.agent.loop import Approve
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
_PREFIX = "a"


def asking(store: Store, held: Held, session: Session, address: Address) -> Approve:
    """Asks at `address` about the calls of one turn."""
    cwd = Path(session.cwd) if session.cwd else Path.home()

    async def approve(call: ToolCall, what: str) -> Answer:
        asked = await store.approvals.ask(
            held.lease, call.id, fingerprint(call, cwd), what, address, seconds=SECONDS
        )
        await store.outbox.enqueue(_question(asked))
        answer = await _answered(store, held, asked)
        if answer is None:
            await store.outbox.enqueue(
                Draft(
                    key=f"approval:{asked.id}:over",
                    address=address,
                    body="Nobody answered in time, so it was not done.",
                    session_id=session.id,
                )
            )
        return answer or Answer.NEVER

    return approve


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
