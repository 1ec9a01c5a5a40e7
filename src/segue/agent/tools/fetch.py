"""Fetches a web page as text. Pages on private addresses are blocked unless allowed.

Imports httpx2, which is slow to import, so import this module only when it is used.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import re
import socket

import httpx2
from msgspec import Struct

from segue.agent.tools import page
from segue.agent.tools.base import ToolFailed, Workplace, shorten
from segue.agent.tools.isolation import run_isolated
from segue.system import http

TIMEOUT = 30.0
MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
_TEXT = ("text/", "application/json", "application/xml", "application/xhtml+xml")
_TEXT_ENDS = ("+json", "+xml")
# Python has these encodings, but no page uses them, and some take forever to decode.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE
)

# Networks that some versions of Python's ipaddress count as public, but we do not.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments; the metadata service of one cloud
        "192.88.99.0/24",  # relays from IPv4 to IPv6
        "168.63.129.16/32",  # the internal service of another cloud
        "3fff::/20",  # documentation
    )
)
_IPV6_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PageText(Struct, frozen=True):
    """The text of a page."""

    text: str
    status: int = 200
    is_cut: bool = False

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300


async def fetch(url: str, place: Workplace) -> str:
    """Return the text of the page for the model. Raise ToolFailed on failure."""
    page = await read(url, place)
    status = "" if page.is_ok else f"[HTTP {page.status}]\n"
    more = f"\n[only the first {MAX_BYTES:,} bytes of the page]" if page.is_cut else ""
    return status + (shorten(page.text) or "[nothing]") + more


async def read(url: str, place: Workplace) -> PageText:
    """Return the page. Raise ToolFailed if there is none."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _follow(url, place)
    except TimeoutError:
        raise ToolFailed(f"The page took longer than {TIMEOUT:.0f} seconds.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        why = str(error) or type(error).__name__
        raise ToolFailed(f"The page cannot be fetched: {why}") from error


async def _follow(address: str, place: Workplace) -> PageText:
    url = httpx2.URL(address)
    # The environment may name a proxy, which would resolve names where we cannot check them.
    # Connections are not reused: each belongs to one host name, but we address it only by IP.
    limits = httpx2.Limits(max_keepalive_connections=0)
    await asyncio.to_thread(http.tls, trust_env=False)
    async with http.client(trust_env=False, limits=limits) as client:
        for _ in range(MAX_REDIRECTS + 1):
            addresses = await _resolve(url, private=place.private_network)
            response = await _get(client, url, addresses)
            try:
                if not response.has_redirect_location:
                    return await _text(response)
                following = url.join(response.headers["Location"])
            finally:
                await response.aclose()
            if following.netloc != url.netloc and not place.may_fetch(str(following)):
                return PageText(f"[the page redirects to {following}; fetch that if you want it]")
            if following.netloc != url.netloc:
                client.cookies.clear()  # cookies, too, are stored by IP address
            url = following
    raise ToolFailed("The page leads from one address to the next without end.")


async def _get(
    client: httpx2.AsyncClient, url: httpx2.URL, addresses: list[str]
) -> httpx2.Response:
    """Send the request to the first of `addresses` that accepts a connection. Return the response
    with its body unread."""
    refused = httpx2.ConnectError("The host has no address.")
    for ip in addresses:
        request = client.build_request(
            "GET",
            url.copy_with(host=ip),
            headers={
                "Host": url.netloc.decode("ascii"),
                "User-Agent": "segue",
                "Accept": "text/html, text/*;q=0.9, */*;q=0.1",
            },
            # Connect to the address that was checked, even if the name now resolves to another one.
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        try:
            return await client.send(request, stream=True)
        except httpx2.ConnectError as error:
            refused = error
    raise refused


async def _resolve(url: httpx2.URL, *, private: bool) -> list[str]:
    """The IP addresses of the URL's host. Raise ToolFailed if one of them must not be reached."""
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolFailed("Only http and https addresses can be fetched.")
    if url.port is not None and not 0 < url.port < 65536:
        raise ToolFailed(f"There is no port {url.port}.")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            url.raw_host.decode("ascii"), url.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"There is no host {url.host!r}.") from error
    addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    if not private and not all(_is_public(address) for address in addresses):
        raise ToolFailed(f"{url.host} is on a private network, which may not be reached from here.")
    return addresses


def _is_public(address: str) -> bool:
    """True if the address is on the public internet, and not on a private or local network."""
    ip = _inner(ipaddress.ip_address(address))
    if ip.version == 6 and ip not in _IPV6_UNICAST:
        return False
    if any(ip in network for network in _NOT_PUBLIC):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _inner(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address embedded in an IPv6 address, or `ip` itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


async def _text(response: httpx2.Response) -> PageText:
    kind = response.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()
    if not kind.startswith(_TEXT) and not kind.endswith(_TEXT_ENDS):
        raise ToolFailed(f"That is no text but {kind}.")
    body = await http.read(response, MAX_BYTES + 1)
    text = _decode(body[:MAX_BYTES], response.charset_encoding)
    if "\0" in text:
        raise ToolFailed(f"That is no text, though it is said to be {kind}.")
    if "html" in kind:
        text = await _read(text)
    return PageText(text.strip(), response.status_code, is_cut=len(body) > MAX_BYTES)


async def _read(html: str) -> str:
    outcome = await run_isolated(page.__file__, html, TIMEOUT)
    if outcome.code != 0:
        raise ToolFailed("The page is too tangled to be read.")
    return outcome.output


def _decode(body: bytes, named: str | None) -> str:
    """Decode by the byte order mark, the header's charset or the page's own; otherwise as UTF-8."""
    for mark, charset in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(charset, "replace")
    meta = _META_CHARSET.search(body[:2048])
    charset = named or (meta[1].decode("ascii", "replace") if meta else "utf-8")
    try:
        if codecs.lookup(charset).name.replace("_", "-") in _NO_CHARSETS:
            charset = "utf-8"
        return body.decode(charset, "replace")
    except (LookupError, ValueError):  # unknown, or not a text encoding
        return body.decode("utf-8", "replace")
