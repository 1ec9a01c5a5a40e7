"""`segue sessions`, as users and scripts use it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import segue.store
from segue.cli.sessions import sessions_listed
from segue.core.address import Address, ChatType, Platform
from segue.core.session import ME, Origin, Session, Usage
from segue.core.transcript import Message, Role, ToolCall, spoken
from segue.handoffs import queries as handoffs
from segue.store import Store, Tx, bindings, errors, leases, owners, sessions, transcripts
from tests.harness.command_line import Command

T = TypeVar("T")

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TELEGRAM = Address(
    platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="42", thread_id="7"
)
TRICK = "\x1b[2J\u202e\x9b31m"


class SessionsCommand(Command):
    """`segue sessions` of a user with a store."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite://{folder}/segue.db"
        environment = {
            "SEGUE_STORE": self.url,
            "SEGUE_CONFIG": str(folder / "config.toml"),
            "HOME": str(folder),
        }
        super().__init__("sessions", environment)

    def do(self, work: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            async with await segue.store.open(self.url) as store:
                await owners.ensure(store, ME)
                return await work(store)

        return asyncio.run(run())

    def talk(self, title: str | None, *said: str, **more: Any) -> Session:
        """A session in which each of `said` was answered."""

        async def work(store: Store) -> Session:
            session = await sessions.create(store, ME, Platform.LOCAL, title=title, **more)
            lease = await leases.acquire(store, session.id, "a test")
            for text in said:
                asked = spoken(text, datetime.now(UTC))
                answer = Message(Role.ASSISTANT, f"You said: {text}", datetime.now(UTC))
                messages = [asked, answer]
                usage = Usage(input=1200, output=30, cached=200)
                await transcripts.append(store, lease, messages, usage=usage)
            await leases.release(store, lease)
            return await sessions.find(store, ME, session.id)

        return self.do(work)

    def spoil(self, column: str, value: str) -> None:
        """Write rows to the store that only a broken or hostile program would."""

        def work(tx: Tx) -> None:
            tx.change(f"UPDATE sessions SET {column} = :value", value=value)

        async def write(store: Store) -> None:
            await store.write(work)

        self.do(write)


@pytest.fixture
def person(tmp_path: Path) -> SessionsCommand:
    return SessionsCommand(tmp_path)


def age(person: SessionsCommand, session: Session, age: timedelta) -> None:
    def work(tx: Tx) -> None:
        back = int(age.total_seconds() * 1_000_000)
        sql = "UPDATE sessions SET active = active - :back WHERE id = :id"
        tx.change(sql, back=back, id=session.id)

    async def write(store: Store) -> None:
        await store.write(work)

    person.do(write)


async def moved(store: Store, session: Session) -> None:
    await bindings.rebind(store, session.id, TELEGRAM, Origin.HANDOFF)


# List


def test_without_sessions_nothing_is_printed_on_stdout(person: SessionsCommand):
    for words in ((), ("list",)):
        result = person.run(*words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "There are no sessions yet. Type `segue` to start one.\n"
    assert person.json("list") == []


def test_a_pipe_gets_one_line_of_fields_per_session_newest_first(person: SessionsCommand):
    old = person.talk("old one", "a", cwd="/srv/x")
    new = person.talk(None)
    person.do(lambda store: moved(store, old))
    age(person, old, timedelta(days=1))
    first, second = (line.split("\t") for line in person("list").splitlines())
    assert first[:3] == [new.id, "", "not open"]
    assert first[4:] == ["0", ""]
    assert second[:3] == [old.id, "old one", "telegram group 42, thread 7"]
    assert second[4:] == ["2", "/srv/x"]
    assert datetime.fromisoformat(second[3]).tzinfo == UTC
    assert person() == person("list")


def test_sessions_are_listed_as_json(person: SessionsCommand):
    session = person.talk("mine", "a", cwd="/srv/x", model="openai/gpt-5.5")
    person.do(lambda store: moved(store, session))
    (output,) = person.json("list")
    assert output["id"] == session.id
    assert output["address"] == "agent:main:telegram:group:42:7"
    assert (output["title"], output["cwd"], output["messages"]) == ("mine", "/srv/x", 2)
    assert output["usage"] == {"input": 1200, "output": 30, "cached": 200}


def test_json_before_the_command_is_the_same_as_after_it(person: SessionsCommand):
    session = person.talk("mine", "a")
    assert person.json() == person.json("list")
    assert msgspec.json.decode(person("--json", "show", "mine"))["id"] == session.id


def test_sessions_can_be_filtered_by_platform(person: SessionsCommand):
    away, _ = person.talk("away"), person.talk("here")
    person.do(lambda store: moved(store, away))
    assert [s["title"] for s in person.json("list", "--platform", "telegram")] == ["away"]
    assert [s["title"] for s in person.json("list", "--platform", "local")] == ["here"]
    assert person.run("list", "--platform", "slack").stderr == "There are no sessions on slack.\n"
    assert "'icq' is not one of" in person.refused("list", "--platform", "icq")


def test_the_list_is_limited_unless_all_are_requested(person: SessionsCommand):
    for number in range(22):
        person.talk(f"s{number}")
    result = person.run("list")
    assert len(result.stdout.splitlines()) == 20
    assert result.stderr == "There are more. Type `segue sessions list --all` to see them.\n"
    assert len(person.run("list", "--limit", "3").stdout.splitlines()) == 3
    assert person.run("list", "--limit", "22").stderr == ""
    assert len(person("list", "--all").splitlines()) == 22
    assert len(person.json("list")) == 20
    assert "not in the range" in person.refused("list", "--limit", "0")


def test_on_a_terminal_sessions_are_a_table(person: SessionsCommand):
    home = person.environment["HOME"]
    session = person.talk("my project", "a", cwd=f"{home}/code/segue")
    age(person, session, timedelta(minutes=5))
    code, shown = person.on_screen(columns=100)
    assert code == 0
    assert shown == (
        "TITLE       WHERE     LAST ACTIVE    MESSAGES  DIRECTORY\n"
        "my project  not open  5 minutes ago         2  ~/code/segue\n"
    )


def sample(title: str | None, **more: Any) -> Session:
    return Session(
        id="20261116_005601_048b74f2",
        owner=ME,
        source=Platform.LOCAL,
        title=title,
        started=NOW,
        active=NOW - timedelta(hours=3),
        **more,
    )


LONG = sample("a very long title " * 5, address=TELEGRAM, cwd="/a/long/way/to/the/folder/we/are/in")
WIDE = sample("日本語のタイトルはとても長いですから表がずれないかを見る", messages=12345)


@pytest.mark.parametrize("width", [30, 40, 59, 60, 72, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int):
    from rich.cells import cell_len

    lines = "\n".join(sessions_listed([LONG, WIDE, sample(None)], width, NOW)).splitlines()
    # A table of less than 72 columns would omit fields that a user needs.
    assert max(map(cell_len, lines)) <= max(width, 72 if width >= 60 else 0)
    assert any("20261116_005601_048b74f2" in line for line in lines), "an id stays whole"
    assert "3 hours" in " ".join(lines)


def test_a_table_shortens_titles_at_the_end_and_directories_at_the_start():
    _, line, wide = sessions_listed([LONG, WIDE], 80, NOW)
    assert line.startswith("a very long title a ver…  telegram")
    assert line.endswith("…/folder/we/are/in"[-14:])
    assert wide.startswith("日本語のタイトルはとて…")
    assert "12,345" in wide


# Show


def test_a_session_is_shown_with_its_last_messages(person: SessionsCommand):
    session = person.talk("mine", "one", "two", "three", "four", cwd="/srv/x", model="local")
    shown = person("show", "mine").splitlines()
    assert shown[0] == "mine"
    facts = dict(line.strip().split("  ", 1) for line in shown[1 : shown.index("")])
    facts = {name: output.strip() for name, output in facts.items()}
    assert facts["id"] == session.id
    assert facts["where"] == "not open"
    assert facts["last active"] == "just now"
    assert facts["tokens"] == "4,800 in (800 from a cache), 120 out"
    assert (facts["directory"], facts["model"], facts["messages"]) == ("/srv/x", "local", "8")
    assert "open in" not in facts
    assert shown[shown.index("") + 1 :] == [
        line
        for said in ("two", "three", "four")
        for line in (f"You: {said}", f"Segue: You said: {said}")
    ]


def test_a_session_is_found_by_title_id_prefix_or_latest(person: SessionsCommand):
    session = person.talk("mine", "a")
    for name in ("mine", "MINE", session.id, session.id[:20], "latest"):
        assert person.json("show", name)["id"] == session.id
    assert "There is no session “other”." in person.refused("show", "other")
    person.talk(None)
    assert "matches several sessions" in person.refused("show", session.id[:8])


def test_the_holder_and_the_handoffs_of_a_session_are_shown(person: SessionsCommand):
    async def hand_off(store: Store) -> tuple[str, Any]:
        session = await sessions.create(store, ME, Platform.LOCAL, title="mine")
        handoff = await handoffs.request(store, session.id, Platform.TELEGRAM)
        await handoffs.cancel(store, handoff.id)
        await leases.acquire(store, session.id, "a terminal on desk (12)")
        # Checked while this process is open: a lease ends with its holder.
        shown = await asyncio.to_thread(person, "show", "mine")
        return shown, await asyncio.to_thread(person.json, "show", "mine")

    shown, output = person.do(hand_off)
    assert "  open in      a terminal on desk (12)\n" in shown
    assert "  handoff      to telegram, just now, failed: Cancelled. The session stayed" in shown
    assert output["holder"] == "a terminal on desk (12)"
    assert (output["handoffs"][0]["platform"], output["handoffs"][0]["state"]) == (
        "telegram",
        "failed",
    )


def test_tool_calls_are_summarised(person: SessionsCommand):
    session = person.talk("mine")

    async def work(store: Store) -> None:
        lease = await leases.acquire(store, session.id, "a test")
        call = ToolCall("1", "shell", "{}")
        answer = Message(Role.ASSISTANT, "Done.", NOW, tool_calls=(call,))
        await transcripts.append(store, lease, [spoken("do it", NOW), answer])

    person.do(work)
    assert person("show", "mine").endswith("You: do it\nSegue: Done.\n  (1 tool call: shell)\n")
    (exchange,) = person.json("show", "mine")["exchanges"]
    assert exchange == {"asked": "do it", "answered": "Done.", "tools": [["shell", 1]]}


# Search


def test_messages_are_found_by_their_words(person: SessionsCommand):
    session = person.talk("boats", "the red sail is torn")
    person.talk("cats", "the cat is red")
    shown = person("search", "red", "sail").splitlines()
    assert [line.split("\t")[2] for line in shown] == ["assistant", "user"]
    assert shown[1].split("\t")[0] == session.id
    assert shown[1].endswith("\tboats\tthe red sail is torn")
    assert len(person.json("search", "red")) == 4
    assert person.json("search", "red", "--limit", "1")[0]["title"] == "cats"
    _, screen = person.on_screen("search", "torn", "--limit", "1")
    assert screen == "boats (Segue, just now)\n  You said: the red sail is torn\n"


def test_a_search_without_results_says_so_on_stderr(person: SessionsCommand):
    result = person.run("search", "nothing")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No messages found.\n"
    assert person.json("search", "nothing") == []


def test_a_search_says_that_older_messages_are_not_indexed_yet(
    person: SessionsCommand, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.store.search._BATCHES_AHEAD", 0)
    person.talk("boats", "the red sail is torn")
    result = person.run("search", "red")
    assert "the red sail" in result.stdout
    assert result.stderr.startswith("Some older messages are not indexed yet. Search again:")
    assert person.run("search", "red", "--limit", "1").stderr == ""


# Rename


def test_a_session_is_renamed(person: SessionsCommand):
    session = person.talk("old")
    assert person("rename", "old", "my", "project") == "“old” is now “my project”.\n"
    assert person.json("rename", "latest", "it's")["title"] == "it's"
    assert person.json("show", session.id)["title"] == "it's"


def test_a_title_that_is_taken_or_empty_is_refused(person: SessionsCommand):
    person.talk("a")
    person.talk("b")
    assert "You already have a session called “a”. Try “a #2”." in person.refused(
        "rename", "b", "a"
    )
    assert "at least one visible character" in person.refused("rename", "b", "\u200b")
    assert "Missing argument 'TITLE...'" in person.refused("rename", "b")


# Export and import


def test_an_export_can_be_imported(person: SessionsCommand, tmp_path: Path):
    session = person.talk("mine", "one", "zwei ü")
    lines = person("export", "mine").splitlines()
    assert len(lines) == 5
    assert msgspec.json.decode(lines[0])["title"] == "mine"
    assert msgspec.json.decode(lines[3])["content"] == "zwei ü"
    path = tmp_path / "mine.jsonl"
    output = person("export", "mine", "--output", str(path))
    assert output == f"Wrote “mine” to {path}: 4 messages.\n"
    assert path.read_text().splitlines() == lines
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    copy = person.json("import", str(path))
    assert (copy["title"], copy["messages"]) == ("mine #2", 4)
    assert copy["id"] != session.id
    result = person.run("import", "-", given=path.read_text())
    assert result.stdout.startswith("Imported “mine #3” with 4 messages. Its id is ")
    messages = [msgspec.json.decode(line) for line in lines[1:]]
    assert messages[0]["provenance"] == ["owner"]
    copied = [msgspec.json.decode(line) for line in person("export", "mine #3").splitlines()[1:]]
    assert copied == [message | {"provenance": ["unknown"]} for message in messages]


def test_an_existing_file_is_replaced_only_with_force(person: SessionsCommand, tmp_path: Path):
    person.talk("mine", "one")
    path = tmp_path / "precious.txt"
    path.write_text("precious")
    output = person.refused("export", "mine", "--output", str(path))
    assert output == f"Error: {path} already exists. Give another name, or add --force.\n"
    assert path.read_text() == "precious"
    output = person.json("export", "mine", "--output", str(path), "--force")
    assert (output["file"], output["messages"]) == (str(path), 2)
    assert len(path.read_text().splitlines()) == 3
    assert sorted(p.name for p in tmp_path.glob("*precious*")) == ["precious.txt"]


def test_exporting_to_a_symlink_keeps_the_symlink(person: SessionsCommand, tmp_path: Path):
    person.talk("mine", "one")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("old")
    person("export", "mine", "--output", str(tmp_path / "link"), "--force")
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "elsewhere").read_text().splitlines()) == 3


def test_a_failed_export_leaves_no_partial_file(
    person: SessionsCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    person.talk("mine", "one")
    person.talk("other", "one")
    (tmp_path / "there").write_text("precious")

    async def broken(*_: object) -> AsyncIterator[bytes]:
        yield b"{}\n"
        raise errors.busy("x")

    monkeypatch.setattr(transcripts, "export", broken)
    before = sorted(tmp_path.iterdir())
    assert "locked" in person.refused("export", "mine", "--output", str(tmp_path / "new"))
    forced = ("export", "mine", "--output", str(tmp_path / "there"), "--force")
    assert "locked" in person.refused(*forced)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there").read_text() == "precious"


def test_a_dangling_symlink_counts_as_an_existing_file(person: SessionsCommand, tmp_path: Path):
    person.talk("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "already exists" in person.refused("export", "mine", "--output", str(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()


def test_an_export_to_a_device_writes_to_it_and_does_not_replace_it(person: SessionsCommand):
    person.talk("mine", "one")
    assert (
        person("export", "mine", "--output", "/dev/null")
        == "Wrote “mine” to /dev/null: 2 messages.\n"
    )
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_an_unwritable_path_is_reported(person: SessionsCommand, tmp_path: Path):
    person.talk("mine")
    output = person.refused("export", "mine", "--output", str(tmp_path / "no" / "file"))
    assert "cannot be written: No such file or directory." in output
    (tmp_path / "there").write_text("x")
    assert "There is no session “x”" in person.refused("export", "x", "--output", "there")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "Line 1 of the import"), ("{}\n", "Line 1 of the import"), ("nonsense", "Line 1")],
)
def test_an_invalid_export_is_not_imported(person: SessionsCommand, text: str, expected: str):
    result = person.run("import", "-", given=text)
    assert result.exit_code == 1
    assert expected in result.stderr
    assert person.json("list") == []
    assert "No such file" in person.refused("import", "/nowhere/x.jsonl")


# Delete


def test_without_a_terminal_a_session_is_deleted_only_with_yes(person: SessionsCommand):
    session = person.talk("mine", "one")
    output = person.refused("delete", "mine")
    assert "No terminal to ask on. Add --yes to delete the session." in output
    assert person.json("delete", "mine", "--yes")["id"] == session.id
    assert person.json("list") == []
    assert person.json("search", "one") == []
    person.talk("other")
    assert person("delete", "other", "--yes") == "Deleted “other”.\n"


def test_delete_takes_the_exact_title_and_never_guesses(person: SessionsCommand):
    first, second = person.talk("Ships", "one"), person.talk("Ships", "two")
    assert person.json("delete", "ships", "--yes")["id"] == first.id
    assert "There is no session “ships”" in person.refused("delete", "ships", "--yes")
    assert [session["id"] for session in person.json("list")] == [second.id]


def test_every_command_finds_the_same_session_by_a_title(person: SessionsCommand):
    first = person.talk("Ships", "one")
    person.talk("Ships", "two")
    assert person.json("show", "ships")["id"] == first.id
    assert first.id in person("export", "ships")
    assert person.json("rename", "ships", "Boats")["id"] == first.id


def test_on_a_terminal_delete_asks_for_confirmation(person: SessionsCommand):
    person.talk("mine", "one")
    code, shown = person.on_screen("delete", "mine", keys=b"\n")
    assert code == 1
    assert "Delete “mine” with 2 messages permanently? [y/N]:" in shown
    assert len(person.json("list")) == 1
    code, shown = person.on_screen("delete", "mine", keys=b"y\n")
    assert code == 0
    assert shown.endswith("Deleted “mine”.\n")
    assert person.json("list") == []


def test_a_session_that_is_held_is_not_deleted(person: SessionsCommand):
    session = person.talk("mine", "one")

    async def holding(store: Store) -> tuple[str, str]:
        await leases.acquire(store, session.id, "a terminal on desk (12)")
        output = await asyncio.to_thread(person.refused, "delete", "mine", "--yes")
        return output, (await asyncio.to_thread(person.on_screen, "delete", "mine"))[1]

    output, screen = person.do(holding)
    assert screen == output, "nobody is asked in vain"
    assert "This session is open in a terminal on desk (12)." in output
    assert "resume mine --now` to take it over." in output
    assert len(person.json("list")) == 1


# Text from outside


def test_printed_sessions_have_no_control_characters(person: SessionsCommand, tmp_path: Path):
    session = person.talk("mine", f"red {TRICK}", cwd="/x")
    for column in ("title", "cwd", "model"):
        person.spoil(column, f"{column} {TRICK}")
    path = tmp_path / "x"
    for words in (
        ("list",),
        ("show", session.id),
        ("search", "red"),
        ("rename", session.id, f"new {TRICK}"),
        ("export", session.id, "--output", str(path), "--force"),
        ("import", str(path)),
    ):
        for more in ((), ("--json",)):
            assert not set(TRICK) & set(person(*words, *more)) - set("[2J31m")
        _, screen = person.on_screen(*words)
        assert not {"\x1b", "\u202e", "\x9b"} & set(screen)
    _, screen = person.on_screen("export", session.id)
    assert not {"\x1b", "\u202e", "\x9b"} & set(screen)
    assert "\\u202e\\u009b31m" in screen
    assert "\x1b" not in person.refused("show", TRICK)


def test_a_broken_store_is_reported_in_one_sentence(person: SessionsCommand, tmp_path: Path):
    (tmp_path / "segue.db").write_text("something else")
    assert "is not a Segue store" in person.refused("list")
