"""Who may speak to the page's server: only pages that it served itself, in browsers that brought a
token once. A request under another name (DNS rebinding), from another site, or without the cookie
is refused before anything reads it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

from websockets.datastructures import Headers

from segue.core.address import Platform
from segue.store import Store

COOKIE = "segue"
YEAR = 365 * 24 * 3600
TOKEN = "X-Segue-Token"  # noqa: S105 - the name of a header
TRIES = 10
"""Tokens that may be tried in a window, by whomever."""
WINDOW = 60.0
"""Seconds."""
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""What a browser says of its own page's requests, and of an address that was typed."""


class Refused(Exception):
    """The request is not answered but with this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser that was let in."""

    browser: str
    owner: str


class Guard:
    def __init__(
        self, store: Store, names: frozenset[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`names`: what the server may be called, each with its port."""
        self._store = store
        self._names = names
        self._clock = clock
        self._tries: deque[float] = deque()

    def check_names(self, headers: Headers, *, origin: bool) -> str:
        """The name that we were called by. Refuses what was not meant for us, or comes from another
        site. `origin`: it has to say from where it comes."""
        hosts = headers.get_all("Host")
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
        origins = headers.get_all("Origin")
        if len(origins) > 1 or (origin and not origins):
            raise Refused(HTTPStatus.FORBIDDEN)
        # The very name that the page was opened under, so that no other name of ours helps.
        if origins and origins[0].lower() != f"http://{hosts[0].lower()}":
            raise Refused(HTTPStatus.FORBIDDEN)
        if not _OWN_FETCHES.issuperset(headers.get_all("Sec-Fetch-Site")):
            raise Refused(HTTPStatus.FORBIDDEN)
        return hosts[0]

    async def visitor(self, headers: Headers) -> Visitor:
        """The browser that the cookie tells of, if its owner has not revoked it."""
        secret = _cookie(headers)
        browser = await self._store.pages.browser(secret) if secret else None
        owner = await self._store.owners.who(Platform.WEB, browser) if browser else None
        if browser is None or owner is None:
            raise Refused(HTTPStatus.UNAUTHORIZED)
        return Visitor(browser, owner.id)

    def may_try(self) -> None:
        """Let one more token be tried, if there were not too many."""
        now = self._clock()
        while self._tries and self._tries[0] <= now - WINDOW:
            self._tries.popleft()
        if len(self._tries) >= TRIES:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS)
        self._tries.append(now)

    def forgive(self) -> None:
        """The last try was a right one."""
        self._tries.pop()


async def is_revoked(store: Store, visitor: Visitor) -> bool:
    """Whether that browser is its owner's no longer."""
    owner = await store.owners.who(Platform.WEB, visitor.browser)
    return owner is None or owner.id != visitor.owner


def cookie(secret: str) -> str:
    """What the browser is told to keep."""
    return f"{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={YEAR}"


def _cookie(headers: Headers) -> str | None:
    # Cookies are shared by all ports of a host, so others may be there, and even broken ones.
    for line in headers.get_all("Cookie"):
        for pair in line.split(";"):
            jar: SimpleCookie = SimpleCookie()
            try:
                jar.load(pair.strip())
            except CookieError:
                continue
            if COOKIE in jar:
                return jar[COOKIE].value
    return None
