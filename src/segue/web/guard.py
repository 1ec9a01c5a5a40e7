"""Which requests the page's server reads: only those of pages that it served itself. A request
under another name (DNS rebinding) or from another site is refused before anything reads it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from websockets.datastructures import Headers

from segue.core.address import Platform
from segue.store import Store

_OWN_FETCHES = frozenset({"same-origin", "none"})
"""What a browser says of its own page's requests, and of an address that was typed."""


class Refused(Exception):
    """The request is answered with this status, and nothing else."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser that has proven to be its owner's."""

    browser: str
    owner: str


def check_names(headers: Headers, names: Collection[str], *, origin: bool) -> str:
    """The one of `names` that the request is for. Raise Refused when it was not meant for us, or
    comes from another site. `origin`: it has to say from where it comes."""
    hosts = headers.get_all("Host")
    if len(hosts) != 1 or hosts[0] not in names:
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    origins = headers.get_all("Origin")
    if len(origins) > 1 or (origin and not origins):
        raise Refused(HTTPStatus.FORBIDDEN)
    # The very name that the page was opened under, so that no other name of ours helps.
    if origins and origins[0] != f"http://{hosts[0]}":
        raise Refused(HTTPStatus.FORBIDDEN)
    if not _OWN_FETCHES.issuperset(headers.get_all("Sec-Fetch-Site")):
        raise Refused(HTTPStatus.FORBIDDEN)
    return hosts[0]


async def is_revoked(store: Store, visitor: Visitor) -> bool:
    """Whether that browser is its owner's no longer."""
    owner = await store.owners.who(Platform.WEB, visitor.browser)
    return owner is None or owner.id != visitor.owner
