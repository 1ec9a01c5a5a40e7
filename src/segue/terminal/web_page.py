"""The built-in page as seen from the terminal: who can reach it, and a link that opens it.

A link is printed with a QR code for phones. Phones in the local network can open the page if the
user agrees. The answer is a setting, and a gateway that is running is started again with it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import zip_longest
from urllib.parse import urlsplit

from segue import config
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import NoPage, UserError
from segue.core.session import ME
from segue.core.text import one_line
from segue.gateway import background
from segue.handoffs import Completed
from segue.store import Store, gateways, pages
from segue.store.gateways import GatewayRecord
from segue.store.pairings import CODE_SECONDS
from segue.store.processes import whose
from segue.terminal import output
from segue.terminal.display import Display
from segue.terminal.output import folded, screen
from segue.web import endpoints

LAN_WARNING = (
    "Everyone in the local network can reach the web page. Only browsers paired with your link get"
    " in, but conversations cross the network unencrypted."
)
_HERE_ONLY = (
    "The link works on this machine only. To open the page on a phone in the same network, type"
    " `segue pair --lan`."
)
_SETTING = "web.lan"
_WHAT_IT_MEANS = (
    "Phones in the local network can open the web page, too, if you allow it. Only browsers that"
    " open your link get in, but conversations cross the network unencrypted."
)
_RESTART_SECONDS = 10.0
"""Seconds that a restarted gateway has to connect to its platforms."""
_BORDER = 2
_HALVES = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
_BLACK_ON_WHITE = "\x1b[30;107m{}\x1b[0m"


def is_built_in(settings: Settings) -> bool:
    """Return whether a gateway with these settings serves the page."""
    given = settings.platforms.get(Platform.WEB)
    return settings.web.enabled and (given is None or not given.enabled)


def served_url(gateways: Iterable[GatewayRecord]) -> str | None:
    """Return the URL at which one of the gateways serves the page, or None."""
    return next(filter(None, map(endpoints.page_url, gateways)), None)


def reach(*, lan: bool) -> str:
    return "for the whole local network" if lan else "for this machine only"


async def lan_addresses(store: Store, gateways: Iterable[GatewayRecord]) -> tuple[str, ...]:
    """Return the local network addresses at which one of the gateways serves the page."""
    for gateway in gateways:
        if endpoints.page_url(gateway) and (
            place := await pages.location(store, whose(gateway.process)[0])
        ):
            return tuple(filter(endpoints.is_private, place.addresses))
    return ()


def reach_at(addresses: Sequence[str]) -> str:
    """Describe who can reach a page served at these local network addresses."""
    at = f", at {' and '.join(addresses)}" if addresses else ""
    return reach(lan=bool(addresses)) + at


async def link_to(store: Store, done: Completed) -> str | None:
    """Return a link to the conversation on the page, or None if it went to another platform."""
    if done.handoff.platform is not Platform.WEB:
        return None
    return await endpoints.page_link(store, ME, done.handoff.thread)


def link_lines(link: str) -> list[str]:
    """Return the lines that show the link, with a QR code if a phone can open it.

    The link has its own line, however long, so that a terminal recognises it as a whole.
    """
    how = f"Open this link within {CODE_SECONDS / 60:.0f} minutes. It works once:"
    return [
        *qr_code(link),
        how,
        one_line(link),
        *([here_only()] if endpoints.is_local(link) else []),
    ]


def here_only() -> str:
    """Return the hint for a link that a phone cannot open."""
    return folded(_HERE_ONLY, screen())


def qr_code(link: str) -> list[str]:
    """Return the QR code of `link` for a phone's camera.

    Empty if the screen cannot show it, or if the link works on this machine only.
    """
    columns = screen()
    if endpoints.is_local(link) or columns is None or "utf" not in sys.stdout.encoding.lower():
        return []
    variables = config.terminal_variables()
    colours = "NO_COLOR" not in variables and variables.get("TERM", "dumb") != "dumb"
    lines = draw_qr(link, colours=colours)
    return lines if qr_width(lines) <= columns else []


def draw_qr(text: str, *, colours: bool) -> list[str]:
    """Draw the QR code of `text`.

    Without `colours`, draw the light parts, because a terminal without them most likely has a dark
    background.
    """
    import segno  # noqa: PLC0415 - most who could draw a code never do

    rows = [list(row) for row in segno.make(text, micro=False).matrix_iter(border=_BORDER)]
    paper = [0] * len(rows[0])
    pairs = zip_longest(rows[::2], rows[1::2], fillvalue=paper)
    ink = 0 if colours else 1
    lines = [
        "".join(_HALVES[upper ^ ink, lower ^ ink] for upper, lower in zip(*pair, strict=True))
        for pair in pairs
    ]
    return [_BLACK_ON_WHITE.format(line) for line in lines] if colours else lines


def qr_width(lines: list[str]) -> int:
    """Return how many columns the drawing takes."""
    return sum(c in _HALVES.values() for c in lines[0])


async def _print(text: str) -> None:
    output.notice(text)


async def decide_on_phones(store: Store, display: Display, *, lan: bool) -> Settings:
    """Have the page served to phones if the user wants it, and return the settings.

    With `lan`, the user wants it. Otherwise the user is asked, once.
    """
    settings = config.load()
    if lan:
        await let_phones_in(store, display.notice)
    elif await _is_possible(store, settings):
        if config.is_default(_SETTING) and output.is_interactive():
            await display.notice(_WHAT_IT_MEANS)
            wanted = await display.ask_whether("May phones open the page?")
            config.change(_SETTING, [str(wanted).lower()])
        else:
            wanted = settings.web.lan
        if wanted:
            await let_phones_in(store, display.notice)
    return config.load()


async def let_phones_in(store: Store, notice: Callable[[str], Awaitable[None]] = _print) -> None:
    """Remember that phones may open the page, and have the running gateway serve it to them.

    Raise NoPage, or another UserError, if that is impossible.
    """
    settings = config.load()
    if not is_built_in(settings):
        raise NoPage
    if not endpoints.is_in_network():
        raise UserError(
            "This machine is in no local network, so a phone cannot reach the web page. Type the"
            " command without --lan, or connect the machine to a network."
        )
    if not settings.web.lan:
        config.change(_SETTING, ["true"])
    serving = await gateways.serving(store, Platform.WEB)
    if serving is None or _is_reachable(serving):
        return
    await notice("Restarting the gateway, so that phones can open the page…")
    await background.stop(store)
    started = await background.start(store, settings.gateway_log)
    await background.until_connected(store, started, _RESTART_SECONDS)


async def _is_possible(store: Store, settings: Settings) -> bool:
    """Return whether this machine could serve the page to phones, and does not do so yet."""
    if not (is_built_in(settings) and endpoints.is_in_network()):
        return False
    serving = await gateways.serving(store, Platform.WEB)
    return serving is None or (bool(background.here([serving])) and not _is_reachable(serving))


def _is_reachable(gateway: GatewayRecord) -> bool:
    """Return whether the gateway serves the page at this machine's address in the network."""
    url = endpoints.page_url(gateway)
    return url is not None and urlsplit(url).hostname == endpoints.default_address()
