"""`segue sessions`: lists, shows, searches, renames, exports, imports and deletes sessions.

Sessions are printed as text, as tab-separated lines or as JSON. Other commands print them alike.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click

from segue.cli import completion
from segue.cli.common import JSON, YES, ago, confirm, pass_json_on, with_store
from segue.core.address import Platform
from segue.core.errors import SessionError
from segue.core.session import ME, Session
from segue.core.text import count, one_line, quoted
from segue.core.transcript import Role, Transcript
from segue.handoffs import queries as handoff_queries
from segue.handoffs import way_back
from segue.handoffs.values import STEPS, Handoff, State
from segue.store import Store, leases, owners, transcripts
from segue.store import search as stored_search
from segue.store import sessions as stored_sessions
from segue.store.search import Hit
from segue.system import files
from segue.terminal.output import (
    Column,
    fields,
    folded,
    notice,
    picked,
    print_json,
    print_lines,
    print_result,
    screen,
    table,
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
_COLUMNS = (
    Column("TITLE", 24),  # a session without a title shows its id, which is useful only in full
    Column("WHERE", 9),
    Column("LAST ACTIVE", 14),
    Column("MESSAGES", 8, number=True),
    Column("DIRECTORY", 9, keeps_end=True),
)
_NARROW = 60
"""Columns. On a narrower screen a table is unreadable."""
_EXCHANGES = 3
_SAID = 280
_FIELDS = (
    *("id", "title", "source", "started", "active", "ended", "end_reason", "parent", "cwd"),
    *("model", "messages", "usage"),
)
"""The fields of a session that are in JSON as they are."""
_SPEAKERS = {Role.USER: "you", Role.ASSISTANT: "Segue", Role.TOOL: "a tool", Role.SYSTEM: "system"}

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
    help="Only sessions that are on this platform, or that started there and are not open now.",
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
        print_json([session_json(session) for session in found[:most]])
        return
    if found:
        print_lines(sessions_listed(found[:most], screen(), datetime.now(UTC)))
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
        handoffs=await handoff_queries.history(store, session.id, limit=5),
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
        print_lines(hits_found(hits, screen(), datetime.now(UTC)))
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
    print_result(session_json(after), [text], as_json=as_json)


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
    print_result(session_json(session), [text], as_json=as_json)


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
    print_result(session_json(session), [text], as_json=as_json)


async def _free(store: Store, name: str) -> Session:
    """Return the session. Raise SessionError, before asking for confirmation, if it is held."""
    session = await stored_sessions.find(store, ME, name, exact=True)
    if lease := await leases.get(store, session.id):
        back = await way_back(store, session)
        raise SessionError(
            f"This session is open in {lease.holder}. Close it there first, or type `{back} --now`"
            " to take it over."
        )
    return session


def _quoted(session: Session) -> str:
    return quoted(session.title) if session.title else session.id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails:
    """A session with its holder, handoffs and last messages."""

    session: Session
    holder: str | None
    """The holder of its lease, or None."""
    handoffs: tuple[Handoff, ...]
    """Newest first."""
    end: Transcript
    """The last messages."""

    def lines(self, width: int | None, now: datetime) -> list[str]:
        facts = [(name, one_line(text)) for name, text in self._facts(now) if text]
        said = self.end.recap(_EXCHANGES, _SAID).splitlines()
        spoken = [_spoken(line, width) for line in said]
        return [
            one_line(self.session.title or "(no title yet)"),
            *fields(facts, width),
            *(["", *spoken] if spoken else []),
        ]

    def json(self) -> dict[str, Any]:
        return {
            **session_json(self.session),
            "holder": self.holder,
            "handoffs": [handoff_json(handoff) for handoff in self.handoffs],
            "exchanges": [asdict(exchange) for exchange in self.end.exchanges(_EXCHANGES)],
        }

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        session = self.session
        usage = session.usage
        ended = f"{ago(session.ended, now)} ({session.end_reason})" if session.ended else ""
        tokens = f"{usage.input:,} in ({usage.cached:,} from a cache), {usage.output:,} out"
        return [
            ("id", session.id),
            ("where", session_place(session)),
            ("open in", self.holder or ""),
            ("began", f"{session.started.astimezone():%Y-%m-%d %H:%M} ({session.source.shown})"),
            ("last active", ago(session.active, now)),
            ("ended", ended),
            ("follows", session.parent or ""),
            ("directory", short_path(session.cwd)),
            ("model", session.model or ""),
            ("messages", f"{session.messages:,}"),
            ("tokens", tokens if usage.input or usage.output else ""),
            *(("handoff", handoff_text(handoff, now)) for handoff in self.handoffs),
        ]


def _spoken(line: str, width: int | None) -> str:
    indent = "  " if line.startswith("  ") else ""
    return folded(line.strip(), width, f"{indent * 2}  ", indent)


def handoff_text(handoff: Handoff, now: datetime) -> str:
    under_way = handoff.state is State.RUNNING and handoff.step is not None
    how = STEPS[handoff.step] if under_way and handoff.step else handoff.state
    detail = handoff.error or (handoff.detail if under_way else handoff.warning)
    why = f": {detail}" if detail else ""
    return f"to {handoff.platform}, {ago(handoff.requested, now)}, {how}{why}"


def handoff_json(handoff: Handoff) -> dict[str, Any]:
    names = ("platform", "state", "attempt", "requested", "finished", "error", "confirmed")
    step = STEPS[handoff.step] if handoff.step else None
    return {"session": handoff.session_id, "step": step, **picked(handoff, *names)}


def session_place(session: Session) -> str:
    return one_line(str(session.address)) if session.address else session.where


def short_path(path: str | None) -> str:
    """Return a folder with the home directory as `~`."""
    if not path:
        return ""
    home = str(Path.home())
    short = path == home or path.startswith(f"{home}/")
    return one_line(f"~{path[len(home) :]}" if short and home != "/" else path)


def session_json(session: Session) -> dict[str, Any]:
    address = session.address.key if session.address else None
    return {**picked(session, *_FIELDS), "address": address}


def sessions_listed(sessions: Sequence[Session], width: int | None, now: datetime) -> list[str]:
    """Return a table, or two lines per session on a narrow screen.

    Without a screen, return tab-separated id, title, place, last activity, messages and folder.
    """
    if width is None:
        return [
            _tabbed(
                s.id, s.title or "", session_place(s), _second(s.active), s.messages, s.cwd or ""
            )
            for s in sessions
        ]
    if width < _NARROW:
        return [line for session in sessions for line in _narrow(session, width, now)]
    rows = [
        (
            one_line(s.name),
            session_place(s),
            ago(s.active, now),
            f"{s.messages:,}",
            short_path(s.cwd),
        )
        for s in sessions
    ]
    return table(_COLUMNS, rows, width)


def _tabbed(*cells: object) -> str:
    return "\t".join(one_line(str(cell)) for cell in cells)


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _narrow(session: Session, width: int, now: datetime) -> list[str]:
    messages = count(session.messages, "message")
    text = f"{ago(session.active, now)}, {session_place(session)}, {messages}"
    return [folded(one_line(session.name), width, "  ", ""), folded(text, width, "    ", "  ")]


def hits_found(hits: Sequence[Hit], width: int | None, now: datetime) -> list[str]:
    """Return the place, time and text of each hit.

    Without a screen, return tab-separated id, seq, role, time, title and text.
    """
    if width is None:
        return [
            _tabbed(h.session_id, h.seq, h.role, _second(h.at), h.title or "", h.snippet)
            for h in hits
        ]
    lines: list[str] = []
    for hit in hits:
        name = one_line(hit.title or hit.session_id)
        head = f"{name} ({_SPEAKERS[hit.role]}, {ago(hit.at, now)})"
        lines += [folded(head, width, "  ", ""), folded(one_line(hit.snippet), width, "  ")]
    return lines
