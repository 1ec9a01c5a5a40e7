"""An approval covers one file: another file in its place is neither read nor written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.approval import Answer
from segue.core.session import Session
from segue.core.transcript import Role, ToolCall
from segue.store import Store, deliveries, outbox, owners, transcripts
from segue.store.outbox import Outgoing
from segue.turns import Place
from tests.harness.approver import Approver
from tests.turns.conftest import Desk, call

DM = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
REFUSED = "is not the file that it was when this was approved"


def approves(meanwhile: Callable[[], object] = lambda: None) -> Approver:
    """A user who approves after something was changed during the question."""
    return Approver(always=Answer.ONCE, meanwhile=meanwhile)


def link(at: Path, to: Path) -> None:
    at.unlink(missing_ok=True)
    at.symlink_to(to)


async def result(desk: Desk, session: Session, made: ToolCall, person: Approver) -> str:
    await desk.take([made, "Ok."], session, "go", Place(approve=person))
    transcript = await transcripts.load(desk.store, session.id)
    return next(m.content for m in reversed(list(transcript)) if m.role is Role.TOOL)


async def queued(store: Store) -> list[Outgoing]:
    return list(await deliveries.claim(store, list(Platform)))


@pytest.fixture
def files(cwd: Path) -> tuple[Path, Path]:
    """A file that may be changed, and one that may not."""
    notes, key = cwd / "notes", cwd.parent / "key"
    notes.write_text("notes")
    key.write_text("the key")
    return notes, key


WRITE = call("write_file", path="link", content="new")
EDIT = call("edit_file", path="link", old="e", new="E")
SEND = call("send_file", path="link", to="telegram")


@pytest.mark.parametrize("made", [WRITE, EDIT], ids=["write", "edit"])
async def test_a_symlink_changed_during_the_question_is_not_followed(
    desk: Desk, session: Session, cwd: Path, files: tuple[Path, Path], made: ToolCall
):
    notes, key = files
    link(cwd / "link", notes)
    person = approves(lambda: link(cwd / "link", key))
    done = await result(desk, session, made, person)
    assert key.read_text() == "the key"
    assert str(notes) in person.asked[0]
    # The user approved a change of `notes`, and that is what happened.
    assert done.startswith(("Replaced", "Changed"))
    assert str(notes) in done
    assert notes.read_text() in ("new", "notEs")


async def test_a_file_that_is_sent_is_the_one_that_was_shown(
    desk: Desk, session: Session, cwd: Path, files: tuple[Path, Path]
):
    notes, key = files
    await owners.set_home(desk.store, "me", HomeChannel(address=DM, name="phone"))
    link(cwd / "link", notes)
    await result(desk, session, SEND, approves(lambda: link(cwd / "link", key)))
    link(notes, key)
    (sent,) = await queued(desk.store)
    assert sent.file == str(notes)
    assert await outbox.data(desk.store, sent) == b"notes"


@pytest.mark.parametrize(
    ("platform", "name", "reason"),
    [
        (Platform.WEB, "notes", "no files can be sent there"),
        (Platform.WHATSAPP, "boats.zip", "files of the type application/zip cannot be sent there"),
    ],
)
async def test_nobody_is_asked_about_a_file_that_cannot_be_sent(
    desk: Desk, session: Session, cwd: Path, platform: Platform, name: str, reason: str
):
    (cwd / name).write_text("boats")
    at = Address(platform=platform, chat_type=ChatType.DM, chat_id="42")
    await owners.set_home(desk.store, "me", HomeChannel(address=at, name="phone"))
    person = approves()
    done = await result(desk, session, call("send_file", path=name, to=platform.value), person)
    assert done == f"{cwd / name} was not sent to {at}: {reason}."
    assert person.asked == []
    assert await queued(desk.store) == []


def texts(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("*") if path.is_file()]


def replaced(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("other")
    other.replace(file)


def linked_away(file: Path) -> None:
    (file.parent / "away").write_text("away")
    link(file, file.parent / "away")


def in_another_folder(file: Path) -> None:
    folder = file.parent
    folder.rename(folder.with_name("before"))
    folder.mkdir()
    file.write_text("another")


def made_again(file: Path) -> None:
    """Probably with the same inode."""
    file.unlink()
    file.write_text("again")


def changed(file: Path) -> None:
    file.write_text("NOTES")


SWAPS = [replaced, linked_away, in_another_folder, made_again, changed, Path.unlink]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(
    "made",
    [
        call("write_file", path="deep/notes", content="new"),
        call("edit_file", path="deep/notes", old="o", new="0"),
        call("send_file", path="deep/notes", to="telegram"),
    ],
    ids=["write", "edit", "send"],
)
async def test_a_file_that_was_swapped_during_the_question_is_not_touched(
    desk: Desk, session: Session, cwd: Path, made: ToolCall, swap: Callable[[Path], None]
):
    await owners.set_home(desk.store, "me", HomeChannel(address=DM, name="phone"))
    file = cwd / "deep/notes"
    file.parent.mkdir()
    file.write_text("notes")
    done = await result(desk, session, made, approves(lambda: swap(file)))
    assert not done.startswith(("Replaced", "Wrote", "Changed"))
    assert await queued(desk.store) == []
    left = texts(cwd)
    assert "new" not in left
    assert all("0" not in text for text in left)


async def test_a_new_file_does_not_replace_one_created_meanwhile(
    desk: Desk, session: Session, cwd: Path, files: tuple[Path, Path]
):
    _, key = files
    for number, meanwhile in enumerate(
        (
            lambda: (cwd / "fresh").write_text("mine"),
            lambda: link(cwd / "fresh", key),
            lambda: link(cwd / "fresh", cwd / "nowhere"),
        )
    ):
        writing = call("write_file", number, path="fresh", content="new")
        assert REFUSED in await result(desk, session, writing, approves(meanwhile))
        (cwd / "fresh").unlink()
    assert key.read_text() == "the key"
    assert not (cwd / "nowhere").exists()


async def test_folders_are_created_only_where_the_question_named_them(
    desk: Desk, session: Session, cwd: Path
):
    away = cwd.parent / "away"
    away.mkdir()
    writing = call("write_file", path="a/b/c", content="new")
    done = await result(
        desk,
        session,
        writing,
        approves(lambda: link(cwd / "a", away)),
    )
    assert "Wrote" not in done
    assert list(away.iterdir()) == []
    (cwd / "a").unlink()
    await result(desk, session, writing, approves())
    assert (cwd / "a/b/c").read_text() == "new"


async def test_approval_for_the_session_covers_only_the_same_file(
    desk: Desk, session: Session, cwd: Path, files: tuple[Path, Path]
):
    notes, key = files
    link(cwd / "link", notes)
    person = Approver(always=Answer.SESSION)
    for _ in range(3):  # each write puts another file there, which is expected
        assert "Replaced" in await result(desk, session, WRITE, person)
    assert len(person.asked) == 1
    link(cwd / "link", key)
    wary = Approver(always=Answer.NEVER)
    await result(desk, session, WRITE, wary)
    assert len(wary.asked) == 1
    assert str(key) in wary.asked[0]
    assert key.read_text() == "the key"


async def test_writing_works_in_folders_that_cannot_be_listed(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "deep").mkdir()
    (cwd / "deep").chmod(0o300)
    try:
        writing = call("write_file", path="deep/file", content="new")
        assert "Wrote" in await result(desk, session, writing, approves())
    finally:
        (cwd / "deep").chmod(0o700)
    assert (cwd / "deep/file").read_text() == "new"
