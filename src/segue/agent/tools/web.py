"""Fetching a web page as text. Pages on private addresses are out of reach unless allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from html.parser import HTMLParser
from typing import Annotated

import httpx2
import msgspec

from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace, shorten

SECONDS = 30.0
BYTES = 2 * 1024 * 1024
REDIRECTS = 5
_TEXT = ("text/", "application/json", "application/xml", "application/xhtml+xml")
_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_BLOCKS = frozenset("p div li tr h1 h2 h3 h4 h5 h6 br section article pre blockquote".split())


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(description="http or https.", max_length=4000)]


async def fetch(arguments: FetchArguments, place: Workplace) -> str:
    try:
        async with asyncio.timeout(SECONDS):
            return await _follow(arguments.url, place)
    except TimeoutError:
        raise ToolFailed(f"The page took longer than {SECONDS:.0f} seconds.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ToolFailed(f"The page cannot be fetched: {error}") from error


async def _follow(address: str, place: Workplace) -> str:
    url = httpx2.URL(address)
    # Our own environment may name a proxy, which would look names up where we cannot check them.
    async with httpx2.AsyncClient(trust_env=False, timeout=SECONDS) as client:
        for _ in range(REDIRECTS + 1):
            ip = await _resolve(url, private=place.private_network)
            request = client.build_request(
                "GET",
                url.copy_with(host=ip),
                headers={"Host": url.netloc.decode(), "User-Agent": "segue", "Accept": "text/*"},
                # To the address that was checked, whatever the name resolves to by then.
                extensions={"sni_hostname": url.host},
            )
            response = await client.send(request, stream=True)
            try:
                if not response.has_redirect_location:
                    return await _text(response)
                url = url.join(response.headers["Location"])
            finally:
                await response.aclose()
    raise ToolFailed("The page leads from one address to the next without end.")


async def _resolve(url: httpx2.URL, *, private: bool) -> str:
    """One IP address of the URL's host; ToolFailed when it is one that must not be reached."""
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolFailed("Only http and https addresses can be fetched.")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ToolFailed(f"There is no host {url.host!r}.") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not private and not all(_is_public(address) for address in addresses):
        raise ToolFailed(f"{url.host} is on a private network, which may not be reached from here.")
    return addresses[0]


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is not None:
            ip = inner
    return ip.is_global and not ip.is_multicast


async def _text(response: httpx2.Response) -> str:
    kind = response.headers.get("Content-Type", "text/plain").lower()
    if not kind.startswith(_TEXT):
        raise ToolFailed(f"That is no text but {kind.partition(';')[0]}.")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > BYTES:
            break
    text = bytes(body[:BYTES]).decode(response.encoding or "utf-8", "replace")
    if "html" in kind:
        text = html_text(text)
    status = "" if response.is_success else f"[HTTP {response.status_code}]\n"
    return status + (shorten(text.strip()) or "[nothing]")


def html_text(html: str) -> str:
    """What a person would read of a page."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


FETCH = Tool(
    name="fetch_page",
    description="Fetch a web page and read its text.",
    risk=Risk.READ,
    arguments=FetchArguments,
    work=fetch,
    tell=lambda arguments, place: f"fetch {arguments.url}",
)
