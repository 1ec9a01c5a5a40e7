"""Exporting a session as JSON lines, and importing it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from segue.core import provenance
from segue.core.address import Platform
from segue.core.errors import OwnerNotFound, SessionNotFound, UserError
from segue.core.session import Session
from segue.core.transcript import Kind, Message, Role, ToolCall
from segue.store import Store, owners, search, sessions, transcripts
from segue.store.transcripts import _PAGE
from segue.store.values import MESSAGE_LIMIT
from tests.store.samples import (
    AT,
    PICTURES,
    answered,
    called,
    hold,
    result,
    said,
    say,
    summary,
    texts,
)

HEADER = b'{"segue":1,"id":"x","source":"local","started":"2026-01-01T12:00:00Z"}\n'
LINE = b'{"role":"user","content":"hi","at":"2026-01-01T12:00:00Z"}\n'


async def exported(store: Store, session_id: str, owner: str = "me") -> list[bytes]:
    return [line async for line in transcripts.export(store, owner, session_id)]


def unnumbered(messages: Iterable[Message]) -> list[Message]:
    return [msgspec.structs.replace(message, seq=0) for message in messages]


async def test_an_imported_export_is_the_same_conversation(store: Store):
    session = await sessions.create(
        store, "me", Platform.SLACK, title="Größe", cwd="/home/me", model="some-model"
    )
    call = called("shell", "read")
    messages = [
        Message(Role.SYSTEM, "prompt", AT, kind=Kind.SYNTHETIC),
        said("grüß\n Gott 👋🏽", tokens=7),
        call,
        *(result(c, f"result {c.id}") for c in call.tool_calls),
        Message(Role.ASSISTANT, "", AT, tool_calls=(ToolCall("1", "x", "{"),), extras={"a": [1]}),
        summary("so far"),
        Message(Role.USER, "look", AT, images=PICTURES),
        answered("done"),
    ]
    await say(store, session.id, *messages)
    lines = await exported(store, session.id)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    copy = await transcripts.import_lines(store, "me", lines)
    assert copy.id != session.id
    assert (copy.title, copy.source) == ("Größe #2", Platform.SLACK)
    assert (copy.cwd, copy.model, copy.messages) == ("/home/me", "some-model", len(messages))
    assert unnumbered(await transcripts.load(store, copy.id)) == messages
    window = await transcripts.window(store, copy.id, 99)
    assert texts(window) == ["so far", "look", "done"]
    lease = await hold(store, copy.id)
    assert await transcripts.append(store, lease, [said("go on")]) == len(messages) + 1
    assert len(await search.messages(store, "me", "grüß")) == 2


async def test_the_authors_in_an_export_are_not_believed(store: Store, session: Session):
    authored = msgspec.structs.replace(said("hi"), provenance=provenance.OWNER)
    await say(store, session.id, authored)
    lines = await exported(store, session.id)
    assert b'"provenance":["owner"]' in lines[1]
    for imported in (lines, [HEADER, LINE]):  # the second is of an earlier version
        copy = await transcripts.import_lines(store, "me", imported)
        (message,) = await transcripts.load(store, copy.id)
        assert message.provenance == provenance.UNKNOWN


async def test_an_export_has_every_page_and_omits_undone_messages(store: Store, session: Session):
    lease = await hold(store, session.id, *(said(f"{i}") for i in range(2 * _PAGE + 3)))
    await transcripts.undo(store, lease)
    copy = await transcripts.import_lines(store, "me", await exported(store, session.id))
    loaded = await transcripts.load(store, copy.id)
    assert texts(loaded) == [f"{i}" for i in range(2 * _PAGE + 2)]
    assert [message.seq for message in loaded] == list(range(1, 2 * _PAGE + 3))


async def test_an_empty_session_can_be_exported_and_imported(store: Store, session: Session):
    lines = await exported(store, session.id)
    assert len(lines) == 1
    copy = await transcripts.import_lines(store, "me", lines)
    assert (copy.messages, copy.title) == (0, None)


async def test_an_owner_cannot_export_the_session_of_another(store: Store, session: Session):
    await owners.ensure(store, "you")
    for owner in ("you", "nobody"):
        with pytest.raises(SessionNotFound):
            await exported(store, session.id, owner)
    with pytest.raises(SessionNotFound):
        await exported(store, "20260101_120000_00000000")


async def test_an_import_belongs_to_the_owner_who_imports_it(store: Store, session: Session):
    await owners.ensure(store, "you")
    copy = await transcripts.import_lines(store, "you", await exported(store, session.id))
    assert copy.owner == "you"
    assert await sessions.list_sessions(store, "me") == (session,)
    with pytest.raises(OwnerNotFound):
        await transcripts.import_lines(store, "nobody", [HEADER])


async def test_unstorable_characters_are_replaced_by_an_import(store: Store):
    line = b'{"role":"user","content":"a\\u0000b","at":"2026-01-01T12:00:00Z"}'
    copy = await transcripts.import_lines(store, "me", [HEADER, line])
    assert texts(await transcripts.load(store, copy.id)) == ["a\ufffdb"]


BAD_LINES = [
    b"",
    b"\n",
    b"not json\n",
    b"[]\n",
    b"{}\n",
    HEADER,
    b"\xff\xfe\n",
    b'{"role":"nobody","content":"hi","at":"2026-01-01T12:00:00Z"}\n',
    b'{"role":"user","content":7,"at":"2026-01-01T12:00:00Z"}\n',
    b'{"role":"user","content":"hi","at":"yesterday"}\n',
    b'{"role":"user","content":"hi","at":"2026-01-01T12:00:00"}\n',
    b'{"role":"user","content":"\\ud800","at":"2026-01-01T12:00:00Z"}\n',
    b'{"role":"user","content":"hi","at":"2026-01-01T12:00:00Z","tokens":1e30}\n',
    b'{"role":"user","content":"hi","at":"2026-01-01T12:00:00Z","tokens":-1}\n',
    b'{"role":"user","content":"hi","at":"2026-01-01T12:00:00Z","tokens":9999999999999999999}\n',
    LINE.replace(b"}", b',"images":["a.png"]}'),
    LINE.replace(b"}", b',"images":[{"media_type":"image/png","data":"%"}]}'),
    LINE + LINE,
    b"[" * 100_000,
]


async def test_a_bad_line_is_named_and_nothing_is_imported(store: Store):
    for bad in BAD_LINES:
        with pytest.raises(UserError, match="Line 3 "):
            await transcripts.import_lines(store, "me", [HEADER, LINE, bad, LINE])
    assert await sessions.list_sessions(store, "me") == ()


BAD_BEGINNINGS = [
    b"",
    LINE,
    b'{"segue":1}',
    b'{"segue":1,"id":"x","source":"fax","started":"2026-01-01T12:00:00Z"}',
    b'{"segue":2,"id":"x","source":"local","started":"2026-01-01T12:00:00Z"}',
]


async def test_a_file_without_the_export_header_is_refused(store: Store):
    for first in BAD_BEGINNINGS:
        with pytest.raises(UserError, match="Line 1 "):
            await transcripts.import_lines(store, "me", [first, LINE])
    assert await sessions.list_sessions(store, "me") == ()


async def test_an_empty_file_is_not_an_export(store: Store):
    with pytest.raises(UserError, match="Line 1 "):
        await transcripts.import_lines(store, "me", [])
    assert await sessions.list_sessions(store, "me") == ()


async def test_a_line_that_is_too_long_is_refused_and_nothing_is_imported(store: Store):
    text = b"x" * (MESSAGE_LIMIT + 1)
    huge = b'{"role":"user","content":"' + text + b'","at":"2026-01-01T12:00:00Z"}\n'
    with pytest.raises(UserError, match=r"is not a message of a Segue export|the limit is"):
        await transcripts.import_lines(store, "me", [HEADER, LINE, huge])
    assert await sessions.list_sessions(store, "me") == ()
