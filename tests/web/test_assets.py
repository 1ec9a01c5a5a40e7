"""The files of the page, as far as they can be checked without a browser."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest

from segue.web import static_files
from tests.web import page_types
from tests.web.bare_server import Door
from tests.web.page_types import ASSETS, Elements

SCRIPTS = sorted(ASSETS.glob("*.js"))
SIZE_LIMIT = 140_000
"""Bytes of all assets, as they are shipped: with the types in their comments."""
NAMESPACES = {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}


@pytest.fixture
def elements() -> list[tuple[str, dict[str, str]]]:
    return Elements((ASSETS / "index.html").read_text()).found


def test_the_assets_are_small() -> None:
    assert 0 < sum(path.stat().st_size for path in ASSETS.iterdir()) < SIZE_LIMIT


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in ASSETS.iterdir():
        addresses = set(
            re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`)]*", path.read_text())
        )
        assert addresses <= NAMESPACES, path.name


def test_every_file_that_the_page_loads_exists(elements: list[tuple[str, dict[str, str]]]) -> None:
    loaded = {
        address
        for tag, attributes in elements
        for name, address in attributes.items()
        if name in {"src", "href"} and tag in {"img", "link", "script"}
    }
    assert {"/app.js", "/style.css", "/icon.svg"} <= loaded
    assert [a for a in loaded if not (ASSETS / a.removeprefix("/")).is_file()] == []


def test_the_page_has_nothing_that_its_security_policy_forbids(
    elements: list[tuple[str, dict[str, str]]],
) -> None:
    for tag, attributes in elements:
        assert tag != "style"
        assert tag != "script" or attributes.get("src", "").startswith("/")
        assert [name for name in attributes if name == "style" or name.startswith("on")] == []


def test_no_two_elements_have_the_same_id(elements: list[tuple[str, dict[str, str]]]) -> None:
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_no_script_builds_markup_from_strings() -> None:
    builds = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|createContextualFragment|setHTMLUnsafe"
    )
    assert SCRIPTS
    assert [script.name for script in SCRIPTS if re.search(builds, script.read_text())] == []


def test_scripts_refer_only_to_existing_elements_and_files(
    elements: list[tuple[str, dict[str, str]]],
) -> None:
    ids = {attributes["id"] for _, attributes in elements if "id" in attributes}
    for script in SCRIPTS:
        text = script.read_text()
        assert set(re.findall(r'byId\("([\w-]+)"\)', text)) <= ids, script.name
        icons = {f"i-{name}" for name in re.findall(r'icon\("([\w-]+)"\)', text)}
        assert icons <= ids, script.name
        for name in re.findall(r'from "\./([\w.]+)"', text):
            assert (ASSETS / name).is_file(), script.name


def test_the_types_that_scripts_are_checked_with_are_those_of_the_server_and_the_page() -> None:
    for path, text in page_types.written().items():
        assert path.read_text() == text, "type: .venv/bin/python -m tests.web.page_types"


def test_no_types_are_served() -> None:
    assert [path for path in static_files.load() if ".d." in path or path.endswith(".ts")] == []


def test_no_script_is_exempt_from_the_checks() -> None:
    exempt = r"@ts-|eslint-|@(?:type|param|returns) \{(?:any|\*)\}"
    found = {script.name: re.findall(exempt, script.read_text()) for script in SCRIPTS}
    # The element with an id: the test above compares the ids with the page.
    assert {name: it for name, it in found.items() if it} == {"dom.js": ["@type {any}"]}


# As they are served


async def test_the_page_refers_to_files_that_never_change(door: Door):
    page = (await door.ask("/")).body.decode()
    paths = re.findall(r' (?:href|src)="(/[^"]+)"', page)
    assert paths
    for path in paths:
        answer = await door.ask(path)
        assert answer.status == 200, path
        assert path.startswith("/v/")
        assert "immutable" in answer.one("Cache-Control")
    # Modules import each other from the same folder, and are asked for at once.
    modules = {path.name for path in SCRIPTS} - {"theme.js"}
    assert modules <= {path.rpartition("/")[2] for path in paths}
    assert (await door.ask("/v/0123456789abcdef/app.js")).status == 404


def test_a_change_of_any_file_changes_all_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = {path for path in static_files.load() if path.startswith("/v/")}
    shutil.copytree(ASSETS, tmp_path / "assets")
    with (tmp_path / "assets" / "dom.js").open("a") as file:
        file.write("// changed\n")
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    after = {path for path in static_files.load() if path.startswith("/v/")}
    assert len(after) == len(before)
    assert not after & before


@pytest.mark.parametrize("path", ["/", "/app.js", "/style.css"])
async def test_a_file_that_the_browser_has_is_not_sent_again(door: Door, path: str):
    first = await door.ask(path)
    assert first.one("Cache-Control") == "no-cache"
    for tags in (first.one("ETag"), f'"x", W/{first.one("ETag")}'):
        again = await door.ask(path, [("If-None-Match", tags)])
        assert (again.status, again.body) == (304, b"")
        assert again.one("ETag") == first.one("ETag")
        assert again.one("Content-Security-Policy") == first.one("Content-Security-Policy")
    assert (await door.ask(path, [("If-None-Match", '"x"')])).status == 200


async def test_files_are_compressed_for_browsers_that_can_read_it(door: Door):
    plain = await door.ask("/app.js")
    for header in ("gzip", "br, gzip", "gzip;q=0", "identity", ""):
        answer = await door.ask("/app.js", [("Accept-Encoding", header)])
        assert answer.one("Vary") == "Accept-Encoding"
        if header in {"gzip", "br, gzip"}:
            assert answer.one("Content-Encoding") == "gzip"
            assert gzip.decompress(answer.body) == plain.body
            assert len(answer.body) < len(plain.body)
            assert answer.one("ETag") != plain.one("ETag")
        else:
            assert answer.body == plain.body
