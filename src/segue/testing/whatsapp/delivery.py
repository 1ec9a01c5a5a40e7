"""The webhook: the handshake, and signed requests that are repeated until they are answered by 200.

developers.facebook.com/docs/graph-api/webhooks/getting-started: the handshake, the signature. The
requests of WhatsApp have up to 1,000 updates, come in no certain order, and are repeated for up to
seven days if the answer is not 200.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import urllib.parse
from collections.abc import Sequence
from functools import partial

import msgspec

from segue.platforms.errors import parsed
from segue.testing.peers.updates import Update
from segue.testing.whatsapp.state import State, Webhook

_MOST_SECONDS = 0.5
_PATIENCE = 20.0


async def request(method: str, url: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Return the status and the body of the answer; 0 if there is none."""
    at = urllib.parse.urlsplit(url)
    given = {"Host": at.netloc, "Connection": "close", "Content-Length": str(len(body)), **headers}
    lines = [f"{method} {at.path}{f'?{at.query}' if at.query else ''} HTTP/1.1"]
    lines += (f"{name.replace('_', '-')}: {value}" for name, value in given.items())
    head = "\r\n".join([*lines, "", ""]).encode()
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
            try:
                writer.write(head + body)
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return 0, b""
    first, _, content = answer.partition(b"\r\n\r\n")
    status = first.split(b" ", 2)[1:2]
    return int(status[0]) if status else 0, content


def signature(secret: str, body: bytes) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class Delivery:
    """Delivers the updates of a state, until it is cancelled."""

    def __init__(self, state: State, secret: str) -> None:
        self._state = state
        self._secret = secret
        self._flying: dict[asyncio.Task[None], Sequence[int]] = {}
        """The requests that are not answered, with the numbers of their updates."""
        self._pauses: dict[int, float] = {}
        """The next pause of each update that was not accepted."""
        self._waits: set[int] = set()
        """Those whose pause is not over."""

    async def run(self) -> None:
        state, pulse = self._state, self._state.pulse
        try:
            while True:
                seen, hook = pulse.count, state.webhook
                if hook is not None and not hook.verified:
                    await self._shake(hook)
                elif hook is not None and (updates := self._next()):
                    task = asyncio.create_task(self._post(hook, updates))
                    self._flying[task] = [update.number for update in updates]
                    task.add_done_callback(self._landed)
                else:
                    await pulse.until(partial(self._is_new, seen), 60.0)
        finally:
            for task in tuple(self._flying):
                task.cancel()

    def _is_new(self, seen: int) -> bool:
        return self._state.pulse.count > seen

    def _landed(self, task: asyncio.Task[None]) -> None:
        del self._flying[task]
        self._state.pulse.beat()

    def _next(self) -> Sequence[Update]:
        """What one request delivers next. With one request at a time, nothing overtakes."""
        state, flying = self._state, {it for them in self._flying.values() for it in them}
        settings = state.settings
        if len(self._flying) >= settings.parallel:
            return ()
        free = [it for it in state.updates.waiting if it.number not in flying]
        if settings.parallel == 1 and free and free[0].number in self._waits:
            return ()
        ready = [it for it in free if it.number not in self._waits]
        return ready[: settings.batch] if all(map(_payload, ready[: settings.batch])) else ready[:1]

    async def _shake(self, hook: Webhook) -> None:
        state = self._state
        challenge = str(secrets.randbelow(10**9))
        asked = {"hub.mode": "subscribe", "hub.challenge": challenge}
        query = urllib.parse.urlencode({**asked, "hub.verify_token": hook.verify_token})
        status, body = await request("GET", f"{hook.url}?{query}")
        hook.verified = status == 200 and body == challenge.encode()
        state.answers[status] += not hook.verified
        state.pulse.beat()
        if not hook.verified:
            await asyncio.sleep(state.settings.retry_seconds)

    async def _post(self, hook: Webhook, updates: Sequence[Update]) -> None:
        state = self._state
        body = _merged(updates)
        headers = {"Content_Type": "application/json", "User_Agent": "facebookexternalua"}
        signed = {"X_Hub_Signature_256": signature(self._secret, body)}
        status, _ = await request("POST", hook.url, body, **headers, **signed)
        state.answers[status] += 1
        numbers = {update.number for update in updates}
        if status == 200:
            state.updates.waiting = [it for it in state.updates.waiting if it.number not in numbers]
        else:
            for number in numbers:
                pause = self._pauses.get(number, state.settings.retry_seconds)
                self._pauses[number] = min(2 * pause, _MOST_SECONDS)
                self._waits.add(number)
                asyncio.get_running_loop().call_later(pause, self._again, number)

    def _again(self, number: int) -> None:
        self._waits.discard(number)
        self._state.pulse.beat()


def _payload(update: Update) -> dict[str, list[object] | str] | None:
    """The update, if it is a payload that can be merged with others."""
    return parsed(update.frame, dict[str, list[object] | str])


def _merged(updates: Sequence[Update]) -> bytes:
    """One payload with the entries of all."""
    if len(updates) == 1:
        return updates[0].frame.encode("utf-8", "surrogatepass")
    payloads = [found for it in updates if (found := _payload(it)) is not None]
    entries = [entry for payload in payloads for entry in payload.get("entry", ())]
    return msgspec.json.encode({**payloads[0], "entry": entries})
