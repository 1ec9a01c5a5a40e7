"""The slash commands.

One table drives help, completion and the documentation. A command works on the context in which it
was typed, in the terminal or in a chat (`base`): on its `session`, the `agent` or its `jobs`.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator

from segue.commands import agent, jobs, session
from segue.commands.base import (
    CHAT,
    PREFIX,
    TERMINAL,
    Category,
    ChatContext,
    Command,
    TerminalContext,
)
from segue.commands.base import CommandContext as CommandContext
from segue.commands.base import Where as Where
from segue.core.errors import CommandElsewhere, UnknownCommand
from segue.core.text import one_line


def is_command(text: str) -> bool:
    """Whether `text` is a command: a slash and a word, not a path."""
    first, *_ = text.split(maxsplit=1) or [""]
    return first.startswith(PREFIX) and first[1:].replace("-", "").isalnum()


def find(text: str, where: Where) -> tuple[Command, str]:
    """Return the command that `text` names, and its arguments. UnknownCommand suggests the closest
    name, and CommandElsewhere what to type here instead."""
    name, *rest = text.strip().removeprefix(PREFIX).split(maxsplit=1) or [""]
    if command := _BY_NAME.get((where, name.lower())):
        return command, rest[0].strip() if rest else ""
    for other in Where:
        command = _BY_NAME.get((other, name.lower()))
        if command is not None and command.instead:
            raise CommandElsewhere(name=command.name, where=other, instead=command.instead)
    known = [known.name for known in available(where)]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {PREFIX}{near[0]}?" if near else ""
    raise UnknownCommand(name=one_line(name, 40), hint=hint)


def is_known(text: str, where: Where) -> bool:
    """Whether `text` is a command that has an answer there."""
    if not is_command(text):
        return False
    try:
        find(text, where)
    except CommandElsewhere:
        return True
    except UnknownCommand:
        return False
    return True


def available(where: Where) -> Iterator[Command]:
    return (command for command in COMMANDS if where in command.where)


async def run(context: CommandContext, text: str) -> None:
    """Run the command in `text`. Raise UserError if it cannot be run."""
    command, arguments = find(text, context.where)
    await command.run(context, arguments)


async def _help(context: CommandContext, arguments: str) -> None:
    if not arguments:
        await context.list_commands(list(available(context.where)))
        return
    command, _ = find(arguments, context.where)
    also = f" Also: {', '.join(PREFIX + a for a in command.aliases)}." if command.aliases else ""
    await context.notice(f"{command.usage}\n{command.summary.capitalize()}.{also}")


async def _quit(context: TerminalContext, _: str) -> None:
    await context.leave()


async def _set_home(context: ChatContext, arguments: str) -> None:
    await context.set_home(confirmed=arguments.lower() == "yes")


async def _start(context: ChatContext, arguments: str) -> None:
    await context.greet(arguments)


async def _who_am_i(context: ChatContext, _: str) -> None:
    await context.who_am_i()


_TALK, _SESSION, _AGENT, _PROGRAM = Category
# A chat-only command that does not wait for the current turn.
_chat_now = functools.partial(Command, where=CHAT, at_once=True)

COMMANDS = (
    Command("new", _TALK, "start a new session here", session.new, "[TITLE]"),
    Command("retry", _TALK, "send your last message again", session.retry),
    Command("undo", _TALK, "undo the last messages", session.undo, "[NUMBER]"),
    Command("redo", _TALK, "restore what was undone", session.redo),
    Command("history", _TALK, "show the last messages", session.history, "[NUMBER]"),
    Command("compress", _TALK, "shorten the conversation to a summary", session.compress),
    Command(
        "handoff",
        _SESSION,
        "move this session to another platform, and leave",
        session.handoff,
        "[PLATFORM [--new-thread] [--lan]]",
        where=TERMINAL,
        instead="/move PLATFORM",
    ),
    _chat_now(
        "move",
        _SESSION,
        "move this session to another platform",
        session.move,
        "[PLATFORM [--new-thread]]",
        instead="/handoff PLATFORM",
    ),
    Command(
        "resume", _SESSION, "continue a session here", session.resume, "[NAME]", where=TERMINAL
    ),
    Command(
        "resume",
        _SESSION,
        "continue a session here",
        session.resume_in_chat,
        "[NUMBER | NAME]",
        where=CHAT,
    ),
    Command("sessions", _SESSION, "list your sessions", session.sessions, "[NUMBER]", at_once=True),
    Command(
        "title", _SESSION, "show or change the title of this session", session.title, "[TITLE]"
    ),
    Command("status", _SESSION, "show the details of this session", session.status, at_once=True),
    Command(
        "usage", _SESSION, "show the tokens this session has used", session.usage, at_once=True
    ),
    Command("export", _SESSION, "write this session to a file", session.export, "[FILE]"),
    Command(
        "follow", _SESSION, "watch this session after it has moved", session.follow, where=TERMINAL
    ),
    _chat_now("stop", _TALK, "stop the current answer", session.stop),
    _chat_now(
        "approve", _AGENT, "allow what the agent asks to do", agent.approve, "NUMBER [session]"
    ),
    _chat_now("deny", _AGENT, "refuse what the agent asks to do", agent.deny, "NUMBER"),
    _chat_now("show", _AGENT, "show all of what the agent asks to do", agent.show, "[NUMBER]"),
    Command("model", _AGENT, "show or change the model", agent.model, "[NAME]"),
    Command("tools", _AGENT, "list the agent's tools", agent.tools),
    Command(
        "memory", _AGENT, "show or change the notes about you", agent.memory, agent.MEMORY_ARGUMENTS
    ),
    Command(
        "jobs",
        _AGENT,
        "show or change your jobs",
        jobs.jobs,
        jobs.JOBS_ARGUMENTS,
        at_once=True,
    ),
    Command(
        "remind",
        _AGENT,
        "remind you of something",
        jobs.remind,
        jobs.REMIND_ARGUMENTS,
        at_once=True,
    ),
    _chat_now("sethome", _PROGRAM, "receive handoffs in this chat", _set_home, "[yes]"),
    _chat_now("start", _PROGRAM, "introduce this bot and explain pairing", _start, "[CODE]"),
    _chat_now("whoami", _PROGRAM, "show your account and this chat", _who_am_i),
    Command(
        "help",
        _PROGRAM,
        "show the commands",
        _help,
        "[COMMAND]",
        aliases=("commands",),
        at_once=True,
    ),
    Command("quit", _PROGRAM, "leave", _quit, aliases=("exit",), where=TERMINAL),
)

_BY_NAME = {
    (where, name): command
    for command in COMMANDS
    for where in command.where
    for name in (command.name, *command.aliases)
}
