"""Writing and reading the log of a gateway."""

from __future__ import annotations

import logging
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from segue.core.errors import UserError
from segue.gateway import log_file


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    """Restore the handlers and levels of logging."""
    root, ours = logging.getLogger(), logging.getLogger("segue")
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers).difference(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    ours.setLevel(logging.NOTSET)
    logging.captureWarnings(False)


def test_the_log_has_our_lines_and_only_warnings_of_libraries(tmp_path: Path):
    file = tmp_path / "new" / "gateway.log"
    log_file.write_to(file)
    logging.getLogger("segue.gateway").info("connected to %s", "a \x1b[2Jplace")
    logging.getLogger("httpx2").info("GET https://api.example.com/bot-token/")
    logging.getLogger("httpx2").warning("odd")
    log = file.read_text()
    assert r" INFO segue.gateway: connected to a \x1b[2Jplace" in log
    assert "bot-token" not in log
    assert " WARNING httpx2: odd" in log


def test_the_log_is_readable_by_its_owner_only_even_if_it_was_not_before(tmp_path: Path):
    file = tmp_path / "gateway.log"
    file.write_text("before\n")
    file.chmod(0o644)
    log_file.write_to(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "before\n"


def test_the_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_file, "_MAX_BYTES", 1000)
    file = tmp_path / "gateway.log"
    log_file.write_to(file)
    for number in range(200):
        logging.getLogger("segue").info("line %d", number)
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == ["gateway.log", *(f"gateway.log.{n}" for n in (1, 2, 3))]
    assert all(f.stat().st_size <= 1000 for f in files)
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    assert next(log_file.lines(file, 1)).endswith("line 199")


def test_a_log_that_cannot_be_written_is_reported(tmp_path: Path):
    (tmp_path / "gateway.log").mkdir()
    with pytest.raises(UserError, match=r"gateway\.log cannot be written \(Is a directory\)"):
        log_file.write_to(tmp_path / "gateway.log")


def test_the_last_lines_are_found_however_long_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_file, "_BLOCK", 7)
    file = tmp_path / "log"
    with pytest.raises(UserError, match="There is no log at"):
        list(log_file.lines(file, 5))
    lines = ["a" * 20, "", "bö", "c" * 7, "d"]
    file.write_text("\n".join(lines) + "\n")
    for number in range(7):
        expected = lines[-number:] if number else []
        assert list(log_file.lines(file, number)) == expected
    file.write_text("")
    assert list(log_file.lines(file, 3)) == []


def test_a_truncated_log_is_followed_from_its_start(tmp_path: Path):
    file = tmp_path / "log"
    file.write_text("one\ntwo\n")
    following = log_file.lines(file, 1, follow=True)
    assert next(following) == "two"
    file.write_text("3\n")
    assert next(following) == "3"
    following.close()
