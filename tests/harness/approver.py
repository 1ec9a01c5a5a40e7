"""A user who answers the agent's questions."""

from __future__ import annotations

from collections.abc import Callable

from segue.core.approval import Answer, Description
from segue.core.transcript import ToolCall


class Approver:
    """Gives its answers in order, and records the questions.

    A question beyond the answers gets `always`. Without it, no question is expected any more.
    """

    def __init__(
        self,
        *answers: Answer,
        always: Answer | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """`meanwhile` is called before each answer."""
        self.asked: list[str] = []
        """What was shown for each call."""
        self.calls: list[ToolCall] = []
        self._answers = list(answers)
        self._always = always
        self._meanwhile = meanwhile

    async def __call__(self, call: ToolCall, what: Description, fingerprint: str) -> Answer:
        self.asked.append(str(what))
        self.calls.append(call)
        self._meanwhile()
        answer = self._answers.pop(0) if self._answers else self._always
        assert answer is not None, f"this question was not expected: {what}"
        return answer
