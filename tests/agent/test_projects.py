"""The instructions of a project, in AGENTS.md."""

from __future__ import annotations

import os
from pathlib import Path

from segue.agent.instructions import ABSENT_SECONDS, Projects


async def test_agents_md_of_the_working_directory_is_read(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    assert await Projects().read(tmp_path) == "Use tabs."


async def test_a_directory_without_agents_md_has_no_project_text(tmp_path: Path):
    assert await Projects().read(tmp_path) == ""
    assert await Projects().read(tmp_path / "gone") == ""


async def test_a_link_out_of_the_working_directory_is_not_followed(tmp_path: Path):
    (tmp_path / "secret").write_text("the key")
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").symlink_to(tmp_path / "secret")
    assert await Projects().read(project) == ""


async def test_a_link_inside_the_working_directory_is_followed(tmp_path: Path):
    (tmp_path / "CONTRIBUTING.md").write_text("Use tabs.")
    (tmp_path / "AGENTS.md").symlink_to("CONTRIBUTING.md")
    assert await Projects().read(tmp_path) == "Use tabs."


async def test_a_special_file_is_neither_read_nor_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "AGENTS.md")
    assert await Projects().read(tmp_path) == ""
    (tmp_path / "AGENTS.md").unlink()
    (tmp_path / "AGENTS.md").mkdir()
    assert await Projects().read(tmp_path) == ""
    (tmp_path / "AGENTS.md").rmdir()
    (tmp_path / "AGENTS.md").write_bytes(b"\0" * 10)
    assert await Projects().read(tmp_path) == ""


async def test_invalid_bytes_are_replaced(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_bytes(b"caf\xe9")
    assert (await Projects().read(tmp_path)).encode() == "caf\ufffd".encode()


async def test_a_new_file_is_seen_shortly_after_it_is_created(tmp_path: Path):
    now = 100.0
    projects = Projects(lambda: now)
    assert await projects.read(tmp_path) == ""
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    now += ABSENT_SECONDS
    assert await projects.read(tmp_path) == "Use tabs."
    (tmp_path / "AGENTS.md").write_text("Use spaces.")
    assert await projects.read(tmp_path) == "Use spaces.", "one that is there is always read"


async def test_a_missing_file_is_not_checked_on_every_call(tmp_path: Path):
    now = 100.0
    projects = Projects(lambda: now)
    assert await projects.read(tmp_path) == ""
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    now += ABSENT_SECONDS / 2
    assert await projects.read(tmp_path) == ""
    other = tmp_path / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("Use both.")
    assert await projects.read(other) == "Use both."
