"""Signing in, what a lost sign-in says, and what the server limits."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from segue.core.address import audience_growth
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.base import Part
from segue.platforms.matrix import account
from segue.testing.contract.rig import home_of, part, reading
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape

pytestmark = pytest.mark.real


async def sign_in(rig: AnnaOnMatrix, folder: Path, **more: str) -> dict[str, str]:
    bot = rig.driver.bot.account
    url = rig.driver.server.url
    values = {"url": url, "token": "", "user": bot.user_id, "password": bot.password}
    values["invites_from"] = rig.anna
    return await account.sign_in({**values, **more}, folder)


async def administer(rig: AnnaOnMatrix, path: str, **given: int) -> dict[str, str]:
    """Call the admin API about the bot."""
    server = rig.driver.server
    name = f"admin-{secrets.token_hex(4)}"
    admin = await asyncio.to_thread(server.register, name, admin=True)
    url = f"{server.url}/_synapse/admin/v1/users/{quote(rig.driver.bot.id)}/{path}"
    headers = {"Authorization": f"Bearer {admin.token}"}
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        answer = await http.post(url, json=given, headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


async def test_signing_in_again_keeps_the_device_whose_keys_are_here(
    rig: AnnaOnMatrix, tmp_path: Path
):
    for folder, is_same in ((rig.driver.folder, True), (tmp_path, False)):
        adapter = rig.another((await sign_in(rig, folder))["token"])
        [token, *_] = await adapter.examine(None)
        assert (f"device {rig.driver.bot.account.device_id}." in token.text) == is_same


async def test_a_device_whose_keys_were_lost_is_replaced_by_signing_in_again(
    rig: AnnaOnMatrix, tmp_path: Path
):
    rig.driver.folder = tmp_path
    first = await sign_in(rig, tmp_path)
    assert (await rig.another(first["token"]).examine(None))[0].ok
    _lose(tmp_path)
    found = await rig.another(first["token"]).examine(None)
    assert "are not on this machine" in " ".join(it.text for it in found)
    second = await sign_in(rig, tmp_path)
    assert (await rig.another(second["token"]).examine(None))[0].ok


def _lose(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path)


async def test_a_name_that_is_no_user_id_is_refused(rig: AnnaOnMatrix, tmp_path: Path):
    for name in ("anna", "@anna", "anna:matrix.org", ""):
        with pytest.raises(ConnectFailed, match="is not a user id; give yours as"):
            await sign_in(rig, tmp_path, invites_from=name)


async def test_only_users_of_the_server_are_found(rig: AnnaOnMatrix):
    adapter = rig.another()
    _, _, server = rig.anna.partition(":")
    assert await adapter.find_user(rig.anna) is True
    assert await adapter.find_user(f"@nobody-here:{server}") is False


async def test_a_wrong_password_or_address_is_named(rig: AnnaOnMatrix, tmp_path: Path):
    with pytest.raises(ConnectFailed, match="the user name or the password is not right"):
        await sign_in(rig, tmp_path, password="wrong")
    with pytest.raises(ConnectFailed, match="no connection"):
        await sign_in(rig, tmp_path, url="http://127.0.0.1:9")
    with pytest.raises(ConnectFailed, match="there is no Matrix server at"):
        await sign_in(rig, tmp_path, url=f"{rig.driver.server.url}/elsewhere")


async def test_a_device_that_was_logged_out_says_what_to_do(rig: AnnaOnMatrix):
    await rig.driver.bot.call("POST", "/logout", {})
    with pytest.raises(ConnectFailed, match="logged out; type `segue setup matrix`"):
        await rig.another().connect()
    [finding] = await rig.another().examine(None)
    assert (finding.ok, finding.vital) == (False, True)


async def test_a_soft_logout_says_that_the_keys_are_kept(rig: AnnaOnMatrix):
    soon = int(time.time() * 1000) + 1
    token = (await administer(rig, "login", valid_until_ms=soon))["access_token"]
    with pytest.raises(ConnectFailed, match="The bot keeps its keys"):
        await rig.another(token).connect()


async def test_a_device_whose_keys_are_gone_says_what_to_do(rig: AnnaOnMatrix, tmp_path: Path):
    rig.driver.folder = tmp_path / "new"
    with pytest.raises(ConnectFailed, match="sign in with a new one"):
        await rig.another().connect()


async def test_a_busy_server_says_when_to_try_again(rig: AnnaOnMatrix):
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, await rig.place(Shape.DM))
    await administer(rig, "override_ratelimit", messages_per_second=1, burst_count=1)
    sends = (rig.adapter.send(home, part(key), key=key) for key in "abcdef")
    answers = await asyncio.gather(*sends, return_exceptions=True)
    failed = [it for it in answers if isinstance(it, DeliveryFailed)]
    assert {(it.retry, it.arrived) for it in failed} == {(True, False)}
    assert all(it.after and 0 < it.after <= 6 for it in failed)


@pytest.mark.parametrize("shape", [Shape.DM, Shape.ENCRYPTED_DM])
async def test_a_message_that_is_too_large_with_its_markup_is_sent_without(
    rig: AnnaOnMatrix, shape: Shape
):
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, await rig.place(shape))
    await rig.adapter.send(home, Part(text="<b>x</b>" * 10_000, plain="x"), key="1")
    assert await rig.seen("x")


async def test_the_private_folder_is_private(rig: AnnaOnMatrix):
    files = [it for it in rig.driver.folder.rglob("*") if it.is_file()]
    assert {it.name for it in files} >= {"keys.db", "since"}
    assert {it.stat().st_mode & 0o077 for it in (*files, rig.driver.folder)} == {0}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("m.room.join_rules", {"join_rule": "public"}),
        ("m.room.history_visibility", {"history_visibility": "world_readable"}),
    ],
)
async def test_a_room_that_anyone_can_read_is_public(
    rig: AnnaOnMatrix, kind: str, content: dict[str, str]
):
    at = await rig.place(Shape.ROOM)
    async with reading(rig.adapter) as reader:
        home = await home_of(rig, reader, at)
    before = await rig.adapter.audience(home, [rig.anna])
    await rig.driver.bot.call("PUT", f"/rooms/{quote(at.chat)}/state/{kind}/", content)
    now = await rig.adapter.audience(home, [rig.anna])
    assert before is not None
    assert now is not None
    assert audience_growth(before, now) == "it is public now"
