"""Sessions in the output of commands: as text, as tab-separated lines or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.cli.formatting import ago
from segue.core.handoff import STEPS, Handoff, State
from segue.core.session import Session
from segue.core.text import count, one_line
from segue.core.transcript import Role, Transcript
from segue.terminal.output import Column, fields, folded, picked, table

if TYPE_CHECKING:
    from segue.store.search import Hit

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
_FIELDS = (
    *("id", "title", "source", "started", "active", "ended", "end_reason", "parent", "cwd"),
    *("model", "messages", "usage"),
)
"""The fields of a session that are in JSON as they are."""
_SAID = 280


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
            **as_json(self.session),
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
            ("where", where(session)),
            ("open in", self.holder or ""),
            ("began", f"{session.started.astimezone():%Y-%m-%d %H:%M}, on {session.source}"),
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


def where(session: Session) -> str:
    return one_line(str(session.address)) if session.address else "set aside"


def short_path(path: str | None) -> str:
    """Return a folder with the home directory as `~`."""
    if not path:
        return ""
    home = str(Path.home())
    short = path == home or path.startswith(f"{home}/")
    return one_line(f"~{path[len(home) :]}" if short and home != "/" else path)


def as_json(session: Session) -> dict[str, Any]:
    address = session.address.key if session.address else None
    return {**picked(session, *_FIELDS), "address": address}


def listed(sessions: Sequence[Session], width: int | None, now: datetime) -> list[str]:
    """Return a table, or two lines per session on a narrow screen.

    Without a screen, return tab-separated id, title, place, last activity, messages and folder.
    """
    if width is None:
        return [
            _tabbed(s.id, s.title or "", where(s), _second(s.active), s.messages, s.cwd or "")
            for s in sessions
        ]
    if width < _NARROW:
        return [line for session in sessions for line in _narrow(session, width, now)]
    rows = [
        (one_line(s.name), where(s), ago(s.active, now), f"{s.messages:,}", short_path(s.cwd))
        for s in sessions
    ]
    return table(_COLUMNS, rows, width)


def _tabbed(*cells: object) -> str:
    return "\t".join(one_line(str(cell)) for cell in cells)


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _narrow(session: Session, width: int, now: datetime) -> list[str]:
    text = f"{ago(session.active, now)}, {where(session)}, {count(session.messages, 'message')}"
    return [folded(one_line(session.name), width, "  ", ""), folded(text, width, "    ", "  ")]


_SPEAKERS = {Role.USER: "you", Role.ASSISTANT: "Segue", Role.TOOL: "a tool", Role.SYSTEM: "system"}


def found(hits: Sequence[Hit], width: int | None, now: datetime) -> list[str]:
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
