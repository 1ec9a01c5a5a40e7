"""A fake that calls the bot's webhook as Meta does: the handshake, and signed requests that are
repeated until they are answered by 200.

developers.facebook.com/docs/graph-api/webhooks/getting-started: the handshake, the signature. The
requests of WhatsApp have up to 1,000 updates, come in no certain order, and are repeated for up to
seven days if the answer is not 200.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import secrets
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from segue.platforms.errors import parsed
from segue.testing import http
from segue.testing.peers import snapshot
from segue.testing.peers.state import State
from segue.testing.peers.updates import Update

_MOST_SECONDS = 0.5


class HubSettings(snapshot.Settings, frozen=True, kw_only=True):
    """How the webhook is called."""

    batch: int = 1
    """How many updates one request has at most."""
    parallel: int = 1
    """How many requests are made at the same time. With more than 1, they may overtake."""
    retry_seconds: float = 0.02
    """The pause before the first redelivery. It doubles each time, up to half a second; at Meta
    that goes on for seven days."""


class Hub:
    """Delivers the updates of a state to a webhook."""

    def __init__(self, state: State[Any, Any, Any, Any, Any], secret: str) -> None:
        """The state's settings are HubSettings. `secret` is that of the app."""
        self._state = state
        self._secret = secret
        self._delivery: asyncio.Task[None] | None = None
        self.url = ""
        self._verify_token = ""
        self.is_verified = False
        """Whether the webhook answered the handshake."""
        self.answers: Counter[int] = Counter()
        """How often the webhook answered with each HTTP status. 0: it did not answer."""
        self._flying: dict[asyncio.Task[None], Sequence[int]] = {}
        """The requests that are not answered, with the numbers of their updates."""
        self._pauses: dict[int, float] = {}
        """The next pause of each update that was not accepted."""
        self._waits: set[int] = set()
        """Those whose pause is not over."""

    def subscribe(self, url: str, verify_token: str) -> None:
        """Enter the webhook in the dashboard, and press Verify until it answers."""
        self.url = url
        self._verify_token = verify_token
        self.is_verified = False
        self._delivery = self._delivery or asyncio.create_task(self._deliver())

    def close(self) -> None:
        for task in (*self._flying, *filter(None, [self._delivery])):
            task.cancel()

    async def _deliver(self) -> None:
        pulse = self._state.pulse
        while True:
            seen = pulse.count
            if not self.is_verified:
                await self._shake()
            elif updates := self._next():
                task = asyncio.create_task(self._post(updates))
                self._flying[task] = [update.number for update in updates]
                task.add_done_callback(self._landed)
            else:
                await pulse.until(partial(self._is_new, seen), 60.0)

    def _is_new(self, seen: int) -> bool:
        return self._state.pulse.count > seen

    def _landed(self, task: asyncio.Task[None]) -> None:
        del self._flying[task]
        self._state.pulse.beat()

    def _next(self) -> Sequence[Update]:
        """What one request delivers next. With one request at a time, nothing overtakes."""
        settings: HubSettings = self._state.settings
        if len(self._flying) >= settings.parallel:
            return ()
        flying = set(itertools.chain.from_iterable(self._flying.values()))
        free = [it for it in self._state.updates.waiting if it.number not in flying]
        if settings.parallel == 1 and free and free[0].number in self._waits:
            return ()
        ready = [it for it in free if it.number not in self._waits][: settings.batch]
        return ready if all(map(_payload, ready)) else ready[:1]

    async def _shake(self) -> None:
        challenge = str(secrets.randbelow(10**9))
        url = self.url
        token = self._verify_token
        asked = {"hub.mode": "subscribe", "hub.challenge": challenge, "hub.verify_token": token}
        status, body = await http.request("GET", f"{url}?{urllib.parse.urlencode(asked)}")
        is_good = status == 200 and body == challenge.encode()
        was_changed = url != self.url or token != self._verify_token
        self.is_verified = is_good and not was_changed
        self.answers[status] += not is_good
        self._state.pulse.beat()
        if not is_good:
            await asyncio.sleep(self._state.settings.retry_seconds)

    async def _post(self, updates: Sequence[Update]) -> None:
        body = _merged(updates)
        waiting = self._state.updates
        headers = {"Content_Type": "application/json", "User_Agent": "facebookexternalua"}
        signed = {"X_Hub_Signature_256": signature(self._secret, body)}
        status, _ = await http.request("POST", self.url, body, **headers, **signed)
        self.answers[status] += 1
        numbers = {update.number for update in updates}
        if status == 200:
            waiting.waiting = [it for it in waiting.waiting if it.number not in numbers]
            return
        settings: HubSettings = self._state.settings
        for number in numbers:
            pause = self._pauses.get(number, settings.retry_seconds)
            self._pauses[number] = min(2 * pause, _MOST_SECONDS)
            self._waits.add(number)
            asyncio.get_running_loop().call_later(pause, self._again, number)

    def _again(self, number: int) -> None:
        self._waits.discard(number)
        self._state.pulse.beat()


def signature(secret: str, body: bytes) -> str:
    """The signature of a request, as its header has it."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def _payload(update: Update) -> dict[str, list[object] | str] | None:
    """The update, if it is a payload that can be merged with others."""
    return parsed(update.frame, dict[str, list[object] | str])


def _merged(updates: Sequence[Update]) -> bytes:
    """One payload with the entries of all."""
    if len(updates) == 1:
        return updates[0].frame.encode("utf-8", "surrogatepass")
    found = [_payload(it) for it in updates]
    payloads = [it for it in found if it is not None]
    entries = [*itertools.chain.from_iterable(it.get("entry", ()) for it in payloads)]
    return msgspec.json.encode({**payloads[0], "entry": entries})
