"""The command line. The module of a command is imported only when the command runs."""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

import segue
from segue.core.errors import UserError
from segue.core.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SHORT = 45
"""Characters of the help that a shell shows next to the name of a command, as click has it."""


_ELSEWHERE = {
    "backup": "Save the store, the settings and the keys in FILE.",
    "completion": "Print the completion script for a shell.",
    "config": "Show or change the settings.",
    "demo": "Watch a conversation move from the terminal to the web page and back.",
    "doctor": "Check the installation and say how to fix what is wrong.",
    "gateway": "Run the gateway, which connects Segue to your chats.",
    "handoff": "Move a session to another platform.",
    "jobs": "Show or change jobs: what the agent does at set times.",
    "memory": "Show or change the notes that the agent keeps about you.",
    "model": "Show or choose the model.",
    "pair": "Pair a browser or a chat account with you.",
    "restore": "Put the store, the settings and the keys from FILE in place.",
    "sessions": "List, show, search, rename, export, import or delete your sessions.",
    "setup": "Set up a platform, step by step.",
    "status": "Show the state of the model, page, sessions, gateway and handoffs.",
    "verify": "Verify the bot on Matrix by comparing emoji.",
}
"""Each command in `segue.cli.NAME`, with the first sentence of its help: listing imports none."""


_LOST_OUTPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Why output to a file may fail."""


class Program(click.Group):
    """The command group. It prints a UserError as one line, without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE:
            return getattr(import_module(f"segue.cli.{cmd_name}"), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands as click does, but without importing them."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._short_help(name, limit)) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands as click does, but without importing them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for Tab

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._short_help(name, _SHORT)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _short_help(self, name: str, limit: int) -> str:
        command = self.commands.get(name) or click.Command(name, help=_ELSEWHERE[name])
        return command.get_short_help_str(limit)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except OSError as error:  # --help and --version print here
            if not _is_lost_output(error):
                raise
            _end(_lost_output(error))
        except click.ClickException as error:
            _end(error)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has gone.
            _stop_output()
            return ctx.exit(1)
        except OSError as error:
            if _is_lost_output(error):
                _end(_lost_output(error))
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise click.ClickException(
                "Too many files are open. Type `ulimit -n 4096`, or close programs that use many,"
                " then try again."
            ) from error
        except UserError as error:
            _end(click.ClickException(one_line(str(error))))
        except click.ClickException as error:
            _end(error)
        except (KeyboardInterrupt, click.Abort) as error:
            from segue.cli.common import INTERRUPTED, Declined  # noqa: PLC0415
            from segue.terminal.output import notice  # noqa: PLC0415

            # After Ctrl-C on a new line, because the terminal shows ^C.
            notice("\nAborted!" if isinstance(error, KeyboardInterrupt) else "Aborted!")
            return ctx.exit(1 if isinstance(error, Declined) else INTERRUPTED)


def _is_lost_output(error: OSError) -> bool:
    """Return whether the output could not be written. Errors of files have a name."""
    return error.errno in _LOST_OUTPUT and error.filename is None


def _lost_output(error: OSError) -> click.ClickException:
    _stop_output()
    return click.ClickException(f"The output could not be written: {error.strerror}.")


def _stop_output() -> None:
    """Drop what is still to be written, so that Python does not report it again at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(error: click.ClickException) -> NoReturn:
    """Print the error and exit with its code.

    The message may quote a server or a file name, so control characters are removed.
    """
    from segue.terminal.output import notice  # noqa: PLC0415

    text = io.StringIO()
    error.show(text)
    notice(text.getvalue().rstrip("\n"))
    raise click.exceptions.Exit(error.exit_code) from error


def _sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from segue.cli import completion  # noqa: PLC0415

    return completion.sessions(ctx, param, incomplete)


_here = click.option(
    "--here", is_flag=True, help="Stay in this directory instead of changing to the session's."
)


@click.group(cls=Program, invoke_without_command=True)
@click.version_option(segue.__version__, prog_name="segue")
@click.option("-c", "--continue", "latest", is_flag=True, help="Continue the latest session.")
@click.option(
    "-p",
    "--print",
    "words",
    metavar="TEXT",
    help="Send TEXT (- reads standard input), print the answer and exit.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With -p: print events, one JSON object per line."
)
@_here
@click.pass_context
def main(ctx: click.Context, *, latest: bool, words: str | None, as_json: bool, here: bool) -> None:
    """A personal AI agent whose live conversations move with you.

    Without a command, start a conversation.
    """
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # unencodable characters must not stop the program
            stream.reconfigure(errors="replace")
    if ctx.invoked_subcommand is not None:
        return
    resume = "latest" if latest else None
    if words is None:
        _converse(resume=resume, here=here)
    elif not _say(words, resume, as_json=as_json):
        ctx.exit(1)


def _open_closed_streams() -> None:
    """Replace standard streams that are closed by empty ones: some service managers start a program
    without them. Python has no object for such a stream, and the next file that is opened gets its
    number, so that errors would be written into the store."""
    streams = {"stdin": os.O_RDONLY, "stdout": os.O_WRONLY, "stderr": os.O_WRONLY}
    for name, flags in streams.items():
        if getattr(sys, name) is None:
            # The lowest number that is free, so this one's, because those before it are open now.
            descriptor = os.open(os.devnull, flags)
            mode = "r" if flags == os.O_RDONLY else "w"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


@main.command()
@click.option("--title", help="Title of the new session.")
def chat(*, title: str | None) -> None:
    """Start a conversation."""
    _converse(title=title)


@main.command()
@click.argument("name", nargs=-1, shell_complete=_sessions)
@_here
@click.option("--now", is_flag=True, help="Do not wait: interrupt a running answer.")
def resume(name: tuple[str, ...], *, here: bool, now: bool) -> None:
    """Continue a session here: the one called NAME, or the latest.

    If the agent is answering in it elsewhere, wait for the end of that answer.
    """
    _converse(resume=" ".join(name) or "latest", here=here, now=now)


def _converse(
    *, resume: str | None = None, title: str | None = None, here: bool = False, now: bool = False
) -> None:
    import asyncio  # noqa: PLC0415 - `segue --version` does without

    from segue import config  # noqa: PLC0415
    from segue.cli import first_model  # noqa: PLC0415
    from segue.terminal.program import ChatOptions, chat  # noqa: PLC0415

    settings = first_model.make_ready(config.load())
    if settings is None:
        return
    options = ChatOptions(resume=resume, title=title, here=here, now=now)
    if not asyncio.run(chat(settings, options)):
        click.get_current_context().exit(1)


def _say(words: str, resume: str | None, *, as_json: bool) -> bool:
    import asyncio  # noqa: PLC0415

    from segue import config  # noqa: PLC0415
    from segue.cli.single_turn import take_single_turn  # noqa: PLC0415

    from_stdin = words == "-"
    said = sys.stdin.read() if from_stdin else words
    piped = from_stdin and not sys.stdin.isatty()
    if not said.strip():
        raise click.UsageError("No text to send. Give a text after -p.")
    return asyncio.run(take_single_turn(config.load(), said, resume, piped=piped, as_json=as_json))
