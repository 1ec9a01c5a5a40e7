"""Completion for the prompt: commands, session names, platforms and paths."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from segue import commands
from segue.commands.base import PREFIX, Where
from segue.commands.session import NEW_THREAD
from segue.core.address import TARGETS
from segue.terminal.render.clean import clean

Names = Callable[[], Awaitable[Sequence[str]]]


class PromptCompleter(Completer):
    """Completes input at the prompt. `sessions` returns the names of the user's sessions."""

    def __init__(self, sessions: Names) -> None:
        self._sessions = sessions
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        text = document.text_before_cursor
        if commands.is_command(text) or text == PREFIX:
            async for completion in self._command(text):
                yield completion
        elif complete_event.completion_requested:
            for completion in self._path(document, complete_event):
                yield completion

    async def _command(self, text: str) -> AsyncGenerator[Completion]:
        name, blank, typed = text.removeprefix(PREFIX).partition(" ")
        if not blank:
            for command in commands.available(Where.TERMINAL):
                if command.name.startswith(name.lower()):
                    yield _completion(PREFIX + command.name, text, command.summary)
            return
        for choice in await self._arguments(name, typed):
            if choice.casefold().startswith(typed.casefold()):
                yield _completion(choice, typed)

    async def _arguments(self, name: str, typed: str) -> Sequence[str]:
        if name == "resume":
            return await self._sessions()
        if name == "handoff":
            option = f" {NEW_THREAD}" if " " in typed else ""
            return [f"{target}{option}" for target in TARGETS]
        if name == "help":
            return [command.name for command in commands.available(Where.TERMINAL)]
        return ()

    def _path(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(WORD=True)
        return self._paths.get_completions(Document(word), event)


def _completion(text: str, typed: str, about: str = "") -> Completion:
    return Completion(
        text, start_position=-len(typed), display=clean(text, newlines=False), display_meta=about
    )
