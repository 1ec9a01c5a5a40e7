"""`segue sessions`: lists, shows, searches, renames, exports, imports and deletes sessions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import click

from segue.cli import completion, session_text
from segue.cli.options import JSON, YES, confirm, pass_json_on
from segue.cli.session_text import SessionDetails
from segue.cli.store_access import with_store
from segue.core.address import Platform
from segue.core.errors import SessionHeld
from segue.core.session import ME, Session
from segue.core.text import count, one_line, quoted
from segue.store import Store, leases, owners, transcripts
from segue.store import search as stored_search
from segue.store import sessions as stored_sessions
from segue.store.search import Hit
from segue.system import files
from segue.terminal.output import (
    notice,
    print_json,
    print_lines,
    print_result,
    screen,
    visible_json,
)

_LISTED = 20
_FOUND = 20
_EVERYTHING = 1 << 31
_LAST_MESSAGES = 200
"""How many messages are loaded to find the last few exchanges."""

_NOT_INDEXED = (
    "Some older messages are not indexed yet. Search again: each search continues, and a gateway"
    " does it in the background."
)

_Write = Callable[[bytes], object]

_NAME = click.argument("name", shell_complete=completion.sessions)
_limit = click.IntRange(min=1)


@click.group(invoke_without_command=True)
@JSON
@click.pass_context
def sessions(ctx: click.Context, *, as_json: bool) -> None:
    """List, show, search, rename, export, import or delete your sessions.

    NAME is a whole title, an id, the start of an id, or `latest`. Without a command, list the
    sessions.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)
    elif as_json:
        pass_json_on(ctx)


@sessions.command("list")
@click.option(
    "--platform",
    type=click.Choice([platform.value for platform in Platform]),
    help="Only sessions on this platform, or set aside after starting there.",
)
@click.option("--limit", type=_limit, default=_LISTED, show_default=True, help="Maximum number.")
@click.option("--all", "everything", is_flag=True, help="No maximum.")
@JSON
def list_(*, platform: str | None, limit: int, everything: bool, as_json: bool) -> None:
    """List your sessions, the most recently active first."""
    at = Platform(platform) if platform else None
    most = _EVERYTHING if everything else limit
    found = with_store(
        lambda store: stored_sessions.list_sessions(store, ME, platform=at, limit=most + 1)
    )
    if as_json:
        print_json([session_text.as_json(session) for session in found[:most]])
        return
    if found:
        print_lines(session_text.listed(found[:most], screen(), datetime.now(UTC)))
    elif at:
        notice(f"There are no sessions on {at}.")
    else:
        notice("There are no sessions yet. Type `segue` to start one.")
    if len(found) > most:
        notice("There are more. Type `segue sessions list --all` to see them.")


@sessions.command()
@_NAME
@JSON
def show(*, name: str, as_json: bool) -> None:
    """Show the details and the last messages of a session."""
    details = with_store(lambda store: _details(store, name))
    print_result(details.json(), details.lines(screen(), datetime.now(UTC)), as_json=as_json)


async def _details(store: Store, name: str) -> SessionDetails:
    session = await stored_sessions.find(store, ME, name, exact=True)
    lease = await leases.get(store, session.id)
    return SessionDetails(
        session=session,
        holder=lease.holder if lease else None,
        handoffs=await store.list_handoffs(session.id, limit=5),
        end=await transcripts.last(store, session.id, _LAST_MESSAGES),
    )


@sessions.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=_limit, default=_FOUND, show_default=True, help="Maximum number.")
@JSON
def search(*, words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find messages that contain all the WORDS, newest first."""
    hits, is_complete = with_store(lambda store: _search(store, " ".join(words), limit))
    if as_json:
        print_json(hits)
    elif hits:
        print_lines(session_text.found(hits, screen(), datetime.now(UTC)))
    else:
        notice("No messages found.")
    if not is_complete:
        notice(_NOT_INDEXED)


async def _search(store: Store, words: str, limit: int) -> tuple[Sequence[Hit], bool]:
    """The hits, and whether there can be no more."""
    hits = await stored_search.messages(store, ME, words, limit=limit)
    return hits, len(hits) == limit or await stored_search.is_complete(store)


@sessions.command()
@_NAME
@click.argument("title", nargs=-1, required=True)
@JSON
def rename(*, name: str, title: tuple[str, ...], as_json: bool) -> None:
    """Change the title of a session."""

    async def renamed(store: Store) -> tuple[Session, Session]:
        before = await stored_sessions.find(store, ME, name, exact=True)
        return before, await stored_sessions.rename(store, before.id, " ".join(title))

    before, after = with_store(renamed)
    text = f"{_quoted(before)} is now {_quoted(after)}."
    print_result(session_text.as_json(after), [text], as_json=as_json)


@sessions.command()
@_NAME
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file to write to."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@JSON
def export(*, name: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Write a session as JSON lines: a header, then its messages."""
    target = None if output is None or str(output) == "-" else output
    session, messages = with_store(lambda store: _export(store, name, target, force=force))
    if target is not None:
        value = {"id": session.id, "file": str(target), "messages": messages}
        written = f"Wrote {_quoted(session)} to {one_line(str(target))}"
        print_result(value, [f"{written}: {count(messages, 'message')}."], as_json=as_json)


async def _export(
    store: Store, name: str, target: Path | None, *, force: bool
) -> tuple[Session, int]:
    """Write the session to `target` or to standard output. Return it with its number of messages.

    An existing file is replaced only with `force`, and never by an incomplete session.
    """
    session = await stored_sessions.find(store, ME, name, exact=True)
    messages = -1  # the first line is a header
    with _file(target, force=force) if target else _standard_output() as write:
        async for line in transcripts.export(store, ME, session.id):
            write(line)
            messages += 1
    return session, messages


@contextlib.contextmanager
def _standard_output() -> Generator[_Write]:
    if sys.stdout.isatty():
        yield lambda line: click.echo(visible_json(line.decode()), nl=False)  # noqa: TID251
    else:
        yield sys.stdout.buffer.write


@contextlib.contextmanager
def _file(target: Path, *, force: bool) -> Generator[_Write]:
    """Open the file, and turn errors into messages for the user."""
    try:
        if target.exists() and not target.is_file():
            # A device such as /dev/stdout or a pipe is written to, never replaced.
            with target.open("wb") as file:
                yield file.write
        else:
            with files.replacement(target) if force else files.new_file(target) as file:
                yield file.write
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}."
        if isinstance(error, FileExistsError):
            reason = "already exists. Give another name, or add --force."
        raise click.ClickException(f"{one_line(str(target))} {reason}") from error


@sessions.command("import")
@click.argument("file", type=click.File("rb"))
@JSON
def import_(*, file: IO[bytes], as_json: bool) -> None:
    """Create a session from a FILE written by `export`; - is standard input."""

    async def imported(store: Store) -> Session:
        await owners.ensure(store, ME)
        return await transcripts.import_lines(store, ME, file)

    session = with_store(imported)
    messages = count(session.messages, "message")
    text = f"Imported {_quoted(session)} with {messages}. Its id is {session.id}."
    print_result(session_text.as_json(session), [text], as_json=as_json)


@sessions.command()
@_NAME
@YES
@JSON
def delete(*, name: str, yes: bool, as_json: bool) -> None:
    """Delete a session and its messages permanently."""
    session = with_store(lambda store: _free(store, name))
    messages = count(session.messages, "message")
    question = f"Delete {_quoted(session)} with {messages} permanently?"
    confirm(question, "delete the session", yes=yes)
    with_store(lambda store: stored_sessions.delete(store, session.id))
    text = f"Deleted {_quoted(session)}."
    print_result(session_text.as_json(session), [text], as_json=as_json)


async def _free(store: Store, name: str) -> Session:
    """Return the session, or raise SessionHeld before asking for confirmation."""
    session = await stored_sessions.find(store, ME, name, exact=True)
    if lease := await leases.get(store, session.id):
        raise SessionHeld(holder=lease.holder)
    return session


def _quoted(session: Session) -> str:
    return quoted(session.title) if session.title else session.id
