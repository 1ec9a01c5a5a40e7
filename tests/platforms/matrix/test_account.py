"""Signing in, what a lost sign-in says, and what is too large."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import Part
from segue.platforms.matrix import login
from segue.platforms.matrix.client import FAILURES, _refused
from segue.testing.contract.rig import home_of, listening
from segue.testing.synapse import Account, Server
from tests.platforms.matrix.rig import MatrixRig, Shape


def me(server: Server, token: str) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}"}
    where = f"{server.url}/_matrix/client/v3/account/whoami"
    return httpx2.get(where, headers=headers, trust_env=False).json()


async def signed_in(server: Server, bot: Account, folder: Path, **more: str) -> dict[str, str]:
    values = {"url": server.url, "token": "", "user": bot.user_id, "password": bot.password}
    return await login.sign_in({**values, **more}, folder)


def test_a_soft_logout_says_that_the_keys_are_kept():
    answer = b'{"errcode":"M_UNKNOWN_TOKEN","error":"Expired","soft_logout":true}'
    with pytest.raises(ConnectFailed, match="keeps its keys"), FAILURES.connecting():
        raise _refused(401, answer)


def test_a_busy_server_names_a_time():
    answer = b'{"errcode":"M_LIMIT_EXCEEDED","error":"Too Many","retry_after_ms":1500}'
    assert _refused(429, answer).after == 1.5


@pytest.mark.real
async def test_signing_in_again_keeps_the_device_whose_keys_are_here(
    rig: MatrixRig, server: Server, tmp_path: Path
):
    first = await signed_in(server, rig.bot, tmp_path)
    assert me(server, first["token"])["device_id"] == rig.bot.device_id
    second = await signed_in(server, rig.bot, tmp_path / "elsewhere")
    assert me(server, second["token"])["device_id"] != rig.bot.device_id


@pytest.mark.real
async def test_the_homeserver_is_discovered(server: Server, rig: MatrixRig, tmp_path: Path):
    """Synapse serves /.well-known/matrix/client."""
    found = await signed_in(server, rig.bot, tmp_path, token="t")
    assert found == {"url": server.url}
    with pytest.raises(ConnectFailed, match="no connection"):
        await signed_in(server, rig.bot, tmp_path, url="http://127.0.0.1:9")


@pytest.mark.real
async def test_a_wrong_password_is_named(server: Server, rig: MatrixRig, tmp_path: Path):
    with pytest.raises(ConnectFailed, match="the user name or the password is not right"):
        await signed_in(server, rig.bot, tmp_path, password="wrong")


@pytest.mark.real
async def test_a_device_that_was_logged_out_says_what_to_do(rig: MatrixRig, server: Server):
    headers = {"Authorization": f"Bearer {rig.bot.token}"}
    where = f"{server.url}/_matrix/client/v3/logout"
    assert httpx2.post(where, headers=headers, json={}, trust_env=False).is_success
    with pytest.raises(ConnectFailed, match="`segue setup matrix`"):
        await rig.another().connect()
    (finding,) = await rig.another().examine(None)
    assert (finding.ok, finding.vital) == (False, True)


@pytest.mark.real
@pytest.mark.parametrize("shape", [Shape.DM, Shape.ENCRYPTED_DM])
async def test_a_message_that_is_too_large_with_its_markup_is_sent_without(
    rig: MatrixRig, shape: Shape
):
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, await rig.place(shape))
    await rig.adapter.send(home, Part(text="<b>x</b>" * 10_000, plain="x"), key="1")
    assert await rig.seen("x")


@pytest.mark.real
async def test_the_private_folder_is_private(rig: MatrixRig):
    files = [it for it in rig._folder.rglob("*") if it.is_file()]
    assert {it.name for it in files} >= {"keys.db", "since"}
    assert {it.stat().st_mode & 0o077 for it in files} == {0}
    assert {it.parent.stat().st_mode & 0o077 for it in files} == {0}
