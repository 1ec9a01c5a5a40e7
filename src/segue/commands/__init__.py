"""The commands: one table of what a person can tell the program, which drives help, completion and
documents. A command works on the scene in which it was typed, terminal or chat alike."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from segue.commands import agent, conversation, session
from segue.commands.base import EVERYWHERE, PREFIX, TERMINAL, Category, Command, Run
from segue.commands.base import Scene as Scene
from segue.commands.base import Where as Where
from segue.core.errors import UnknownCommand
from segue.core.text import one_line


def is_command(text: str) -> bool:
    """Whether `text` is meant for the program: a slash and a word, and no path."""
    first, *_ = text.split(maxsplit=1) or [""]
    return first.startswith(PREFIX) and first[1:].replace("-", "").isalnum()


def find(text: str, where: Where) -> tuple[Command, str]:
    """The command that `text` names, and its arguments; UnknownCommand suggests the nearest."""
    name, *rest = text.strip().removeprefix(PREFIX).split(maxsplit=1) or [""]
    command = _BY_NAME.get(name.lower())
    if command is not None and where in command.where:
        return command, rest[0].strip() if rest else ""
    known = [known.name for known in available(where)]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"; the nearest is {PREFIX}{near[0]}" if near else ""
    raise UnknownCommand(name=one_line(name, 40), hint=hint)


def available(where: Where) -> Iterator[Command]:
    return (command for command in COMMANDS if where in command.where)


async def run(scene: Scene, text: str) -> None:
    """Do what `text` says; a UserError says why not."""
    command, arguments = find(text, scene.where)
    await command.run(scene, arguments)


async def _help(scene: Scene, arguments: str) -> None:
    if not arguments:
        await scene.list_commands(list(available(scene.where)))
        return
    command, _ = find(arguments, scene.where)
    also = f" Also: {', '.join(PREFIX + a for a in command.aliases)}." if command.aliases else ""
    await scene.notice(f"{command.usage}\n{command.summary.capitalize()}.{also}")


async def _quit(scene: Scene, _: str) -> None:
    await scene.leave()


def _command(
    name: str,
    category: Category,
    summary: str,
    run: Run,
    arguments: str = "",
    *,
    aliases: tuple[str, ...] = (),
    where: frozenset[Where] = EVERYWHERE,
) -> Command:
    return Command(
        name=name,
        category=category,
        summary=summary,
        run=run,
        arguments=arguments,
        aliases=aliases,
        where=where,
    )


_TALK, _SESSION, _AGENT, _PROGRAM = Category

COMMANDS = (
    _command("new", _TALK, "begin another session here", conversation.new, "[TITLE]"),
    _command("retry", _TALK, "ask the last thing again", conversation.retry),
    _command("undo", _TALK, "take back the last turns", conversation.undo, "[NUMBER]"),
    _command("redo", _TALK, "bring back what was undone", conversation.redo),
    _command("history", _TALK, "show the last turns", conversation.history, "[NUMBER]"),
    _command("compress", _TALK, "go on from a summary", conversation.compress),
    _command(
        "handoff",
        _SESSION,
        "move this session to another platform, and leave",
        session.handoff,
        "[PLATFORM]",
        where=TERMINAL,
    ),
    _command("resume", _SESSION, "bring a session here", session.resume, "[NAME]"),
    _command("sessions", _SESSION, "list your sessions", session.sessions, "[NUMBER]"),
    _command("title", _SESSION, "show or change the name of this one", session.title, "[TITLE]"),
    _command("status", _SESSION, "show what is known of this one", session.status),
    _command("usage", _SESSION, "show the tokens it has spent", session.usage),
    _command("export", _SESSION, "write it to a file", session.export, "[FILE]"),
    _command("follow", _SESSION, "watch it where it is now", session.follow, where=TERMINAL),
    _command("model", _AGENT, "show or change the model", agent.model, "[NAME]"),
    _command("tools", _AGENT, "show what the agent can do", agent.tools),
    _command(
        "memory", _AGENT, "show or change the notes about you", agent.memory, agent.MEMORY_ARGUMENTS
    ),
    _command("help", _PROGRAM, "show the commands", _help, "[COMMAND]", aliases=("commands",)),
    _command("quit", _PROGRAM, "leave", _quit, aliases=("exit",), where=TERMINAL),
)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
