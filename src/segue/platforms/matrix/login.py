"""Signing in: from the name of a server, a user and a password to an access token."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from segue.platforms.errors import Lost, Refused
from segue.platforms.matrix.client import FAILURES, MatrixClient
from segue.platforms.matrix.wire import Answer

_SILENCE = 20.0
_WRONG = "the user name or the password is not right"


async def sign_in(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the URL of the homeserver and, unless there is a token, one for the bot's device.
    Raise ConnectFailed. A device that the bot had is used again, because it has the keys."""
    client = MatrixClient(values["url"], "", _SILENCE)
    try:
        with FAILURES.connecting():
            await _discover(client)
            found = {"url": client.url}
            if not values.get("token"):
                found["token"] = await _token(client, values, folder)
            return found
    finally:
        await client.close()


async def _discover(client: MatrixClient) -> None:
    """Find the URL of a homeserver, which may differ from the name that its users have in their
    ids: https://spec.matrix.org/latest/client-server-api/#well-known-uris"""
    with contextlib.suppress(Refused, Lost):  # most servers that are named by their URL have none
        found = await client.call("GET", "/.well-known/matrix/client", Answer)
        client.url = found.homeserver.get("base_url", client.url).rstrip("/")
    try:
        await client.call("GET", "/_matrix/client/versions", Answer)
    except Refused as refused:
        raise Refused(404, f"there is no Matrix server at {client.url}") from refused


async def _token(client: MatrixClient, values: Mapping[str, str], folder: Path) -> str:
    user = values["user"]
    given: dict[str, Any] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": values["password"],
        "initial_device_display_name": "Segue",
    }
    if device := _device(folder, user):
        given["device_id"] = device
    try:
        return (await client.post("/login", given)).access_token
    except Refused as refused:
        if refused.status != 403:
            raise
        raise Refused(403, _WRONG) from refused


def _device(folder: Path, user: str) -> str:
    """The device that the bot used last, or "" if it has none."""
    name = quote(user.removeprefix("@").partition(":")[0], safe="")
    found = folder.glob(f"@{name}%3A*/*/keys.db")
    newest = sorted(found, key=lambda path: path.stat().st_mtime)
    return newest[-1].parent.name if newest else ""
