"""Keys and passwords are not read without approval, on any path to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agent.tools import files
from segue.agent.tools.base import Workplace
from segue.agent.tools.files import LIST, READ, SEARCH
from tests.agent.tools.calls import propose, question, use


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    for path in (
        ".ssh/config",
        ".aws/credentials",
        ".config/gcloud/keys.json",
        ".config/app/settings",
        ".config/segue/config.toml",
        ".local/share/segue/segue.db",
        ".local/share/segue/files/mine/letter",
        ".local/share/segue/files/theirs/letter",
        "project/.env",
        "project/.env.local",
        "project/.env.example",
        "project/server.pem",
        "project/id_ed25519",
        "project/id_ed25519.pub",
        "project/main.py",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("secret\n")
    return home


@pytest.fixture
def place(home: Path) -> Workplace:
    ours = (home / ".config/segue", home / ".local/share/segue")
    private = files.private_files(home, ours)
    private = files.except_folder(private, home / ".local/share/segue/files/mine")
    return Workplace(cwd=home / "project", private=private)


PRIVATE = [
    "~/.ssh/config",
    "~/.SSH/config",
    "~/.ssh/new",
    "~/.aws/credentials",
    "~/.config/gcloud/keys.json",
    "~/.config/segue/config.toml",
    "~/.local/share/segue/segue.db",
    "~/.local/share/segue/files/theirs/letter",
    ".env",
    ".env.local",
    "server.pem",
    "id_ed25519",
    "/proc/self/environ",
    "/etc/shadow",
]
PUBLIC = [
    "main.py",
    ".env.example",
    "id_ed25519.pub",
    "~/.config/app/settings",
    "~/.local/share/segue/files/mine/letter",
    "/etc/hostname",
    "~",
    "/",
]


def test_only_private_files_need_approval(
    place: Workplace, home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(home))
    assert [path for path in PRIVATE if not propose(READ, place, path=path).asks] == []
    assert [path for path in PUBLIC if propose(READ, place, path=path).asks] == []
    assert "which may hold passwords or keys" in question(READ, place, path=".env")
    assert "passwords" not in question(READ, place, path="main.py")


def test_a_symlink_to_a_private_file_is_private(place: Workplace, home: Path):
    (home / "project/harmless").symlink_to(home / ".ssh/config")
    (home / "project/folder").symlink_to(home / ".ssh")
    assert propose(READ, place, path="harmless").asks
    assert propose(READ, place, path="folder/config").asks
    assert propose(READ, place, path=f"/proc/self/root{home}/.ssh/config").asks
    for tool in (LIST, SEARCH):
        assert propose(tool, place, path="folder", pattern="*").asks


def test_a_private_folder_behind_a_symlink_is_private(home: Path):
    (home / ".ssh").rename(home / "dotfiles")
    (home / ".ssh").symlink_to("dotfiles")
    place = Workplace(cwd=home, private=files.private_files(home))
    assert propose(READ, place, path="dotfiles/config").asks


async def test_a_search_leaves_private_files_out_and_says_so(place: Workplace, home: Path):
    (home / "project/harmless").symlink_to(home / ".ssh/config")
    found = await use(SEARCH, place, pattern="secret")
    assert found.splitlines() == [
        ".env.example:1: secret",
        "id_ed25519.pub:1: secret",
        "main.py:1: secret",
        "[private files that were left out: 5; name one as the path to search it]",
    ]
    everywhere = await use(SEARCH, place, pattern="secret", path="..")
    assert ".ssh" not in everywhere
    assert "gcloud" not in everywhere
    assert ".config/app/settings:1: secret" in everywhere


async def test_an_approved_private_file_is_searched(place: Workplace, home: Path):
    folder = str(home / ".ssh")
    assert propose(SEARCH, place, pattern="secret", path=folder).asks
    assert await use(SEARCH, place, pattern="secret", path=folder) == "config:1: secret"
    assert await use(SEARCH, place, pattern="secret", path=".env") == ".env:1: secret"


async def test_private_folders_are_listed_and_not_entered(place: Workplace):
    listed = (await use(LIST, place, path="..", pattern="**")).splitlines()
    assert ".ssh/" in listed
    assert ".ssh/config" not in listed
    assert "project/.env" in listed
