"""What a project says to the agent."""

from __future__ import annotations

import os
from pathlib import Path

from segue.agent.instructions import ABSENT_SECONDS, Projects


async def test_agents_md_of_the_working_directory_is_read(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    assert await Projects().read(tmp_path) == "Use tabs."


async def test_nothing_is_read_where_there_is_nothing(tmp_path: Path):
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


async def test_what_is_no_text_file_is_not_read_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "AGENTS.md")
    assert await Projects().read(tmp_path) == ""
    (tmp_path / "AGENTS.md").unlink()
    (tmp_path / "AGENTS.md").mkdir()
    assert await Projects().read(tmp_path) == ""
    (tmp_path / "AGENTS.md").rmdir()
    (tmp_path / "AGENTS.md").write_bytes(b"\0" * 10)
    assert await Projects().read(tmp_path) == ""


async def test_bytes_that_are_no_text_are_marked(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_bytes(b"caf\xe9")
    assert (await Projects().read(tmp_path)).encode() == "caf\ufffd".encode()


async def test_one_that_was_not_there_is_seen_a_moment_after_it_was_made(tmp_path: Path):
    now = 100.0
    projects = Projects(lambda: now)
    assert await projects.read(tmp_path) == ""
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    now += ABSENT_SECONDS
    assert await projects.read(tmp_path) == "Use tabs."
    (tmp_path / "AGENTS.md").write_text("Use spaces.")
    assert await projects.read(tmp_path) == "Use spaces.", "one that is there is always read"


async def test_one_that_is_not_there_is_not_looked_for_again_and_again(tmp_path: Path):
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
