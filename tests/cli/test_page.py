"""The built-in page, from the terminal: a handoff to it, its link, pairing, and the local network.
The gateway and the page are real; the browser is reduced to its WebSocket."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import segue.store
from segue.cli.demo.browser import connect_browser, open_browser, text
from segue.core.address import Platform
from segue.core.errors import DemoFailed
from segue.core.session import ME
from segue.store import owners, pages
from segue.store.gateways import GatewayRecord
from segue.store.pages import PageLocation
from segue.store.processes import machine
from segue.terminal import web_page
from tests.harness import networks
from tests.harness.gateways import alive, none_left, segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person
from tests.web import handshake

LINK = re.compile(r"http://\S+/#t=[\w-]{22}(?:&c=[0-9a-f]{16})?")
_INVERTED = str.maketrans("█▀▄ ", " ▄▀█")


@pytest.fixture
def person(person: Person) -> Person:
    """A user who has configured only the scripted model."""
    home = Path(person.environment["HOME"])
    person.environment.update(
        networks.NONE,
        SEGUE_CONFIG=str(home / "config.toml"),
        SEGUE_GATEWAY_LOG=str(home / "gateway.log"),
    )
    _configure(person, "")
    return person


def _configure(person: Person, settings: str) -> None:
    path = Path(person.environment["SEGUE_CONFIG"])
    path.write_text(settings)
    path.chmod(0o600)


async def says(person: Person, *words: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(segue_says, person, *words)


async def begun(shown: Terminal, *texts: str) -> None:
    for said in texts:
        await shown.ready()
        shown.say(said)
        await shown.shows(f"what I hear: {said}")
    await shown.ready()


def link_on(shown: Terminal) -> str:
    """The only link on the screen. It must be on one line, as the program wrote it."""
    (link,) = {found[0] for found in LINK.finditer(shown.raw.decode())}
    return link


def drawn_on(shown: Terminal) -> bool:
    """Whether a QR code was shown."""
    return "▄" in shown.raw.decode()


def told_in(person: Person) -> str:
    """The log of the gateway."""
    return Path(person.environment["SEGUE_GATEWAY_LOG"]).read_text()


# A handoff to the page


async def test_without_any_setup_a_session_goes_to_the_page_and_comes_back(person: Person):
    async with none_left(person):
        async with person.opens(lines=50) as shown:
            await begun(shown, "the boat is red", "it is called Nautilus")
            shown.say("/title Boats")
            await shown.shows("The title of this session is “Boats”.")
            shown.say("/handoff web")
            assert await shown.end() == 0
            assert "[y]es" not in shown.text, "nothing is asked"
            assert shown.text.count("No gateway is running. Starting one.") == 1
            await shown.shows("It serves the web page, for this machine")
            await shown.shows("“Boats” continues on the web page")
            await shown.shows("To come back: segue resume Boats")
            await shown.shows("Open this link within 10 minutes. It works once:")
            await shown.shows("The link works on this machine only.")
            link = link_on(shown)
            assert not drawn_on(shown), "no phone could open it"
        async with open_browser(link) as browser:
            assert [text(line.html) for line in browser.history if line.role == "user"] == [
                "the boat is red",
                "it is called Nautilus",
            ]
            asked = await browser.say("and it is fast")
            await browser.until(
                lambda: any("and it is fast" in text(m.html) for m in browser.answers(asked))
            )
        with pytest.raises(DemoFailed, match="the link was refused"):
            async with open_browser(link):
                pass
        async with person.opens("resume", "boats") as back:
            await back.shows("what I hear: and it is fast")
            await back.see("Boats · scripted · here")
        token = LINK.fullmatch(link) and link.partition("#t=")[2].partition("&")[0]
        assert token
        assert token not in told_in(person)


async def test_a_page_that_is_switched_off_is_reported(person: Person):
    _configure(person, "[web]\nenabled = false\n")
    async with none_left(person), person.opens() as shown:
        await begun(shown, "hello")
        shown.say("/handoff web")
        await shown.shows("No gateway is running, and web is not set up yet.")
        await shown.shows("type `segue config set web.enabled true`, then `segue gateway start`.")
        await shown.ready()
        assert (await says(person, "gateway", "start")).returncode == 0
        shown.say("/handoff web")
        await shown.shows("does not serve the web page. Type `segue config set web.enabled true`")
        await shown.ready()


async def test_the_json_output_has_the_link(person: Person):
    async with none_left(person):
        assert (await says(person, "-p", "hello")).returncode == 0
        refused = await says(person, "handoff", "latest", "web")
        assert refused.returncode == 1
        assert "No gateway is running" in refused.stderr
        assert (await says(person, "gateway", "start")).returncode == 0
        output = await says(person, "handoff", "latest", "web", "--json")
        assert output.returncode == 0, output.stdout
        last = json.loads(output.stdout.splitlines()[-1])
        assert last["event"] == "completed"
        assert last["address"].endswith(last["link"].partition("&c=")[2])
        async with open_browser(last["link"]) as browser:
            assert text(browser.history[0].html) == "hello"
        assert (await says(person, "-c", "-p", "once more")).returncode == 0
        words = (await says(person, "handoff", "latest", "web")).stdout
        (link,) = (found[0] for found in LINK.finditer(words))
        assert f"\n{link}\n" in words
        assert "█" not in words, "no drawing where nobody looks"


# Pairing


async def enter(link: str) -> None:
    """A browser opens a link without a conversation."""
    async with connect_browser(link) as wire:
        await wire.recv()


async def test_a_browser_is_paired_by_a_link_and_no_code_is_shown(person: Person):
    async with none_left(person):
        assert (await says(person, "gateway", "start")).returncode == 0
        async with person.opens("pair", lines=50) as shown:
            await shown.see("Waiting until it is opened")
            link = link_on(shown)
            assert "Your code" not in shown.text
            await enter(link)
            await shown.shows("Paired with a browser, web user")
            assert await shown.end() == 0
            assert "/sethome" not in shown.text
        output = json.loads((await says(person, "pair", "--json")).stdout)
        assert output["code"] is None
        assert LINK.fullmatch(output["links"]["web"])


async def test_a_link_opened_in_a_paired_browser_ends_the_wait(person: Person):
    async with none_left(person):
        assert (await says(person, "gateway", "start")).returncode == 0
        link = json.loads((await says(person, "pair", "--json")).stdout)["links"]["web"]
        url, _, token = link.partition("/#t=")
        key = await handshake.pair(url, token)
        assert key
        async with person.opens("pair", lines=50) as shown:
            await shown.see("Waiting until it is opened")
            token = link_on(shown).partition("#t=")[2]
            async with handshake.opened(url) as wire:
                assert await handshake.prove(wire, url, key, handshake.link_key(token))
                await wire.recv()
            await shown.shows("Opened in a browser that is already paired with you.")
            assert await shown.end() == 0
        assert len(json.loads((await says(person, "pair", "list", "--json")).stdout)) == 1


async def test_the_page_stays_the_home_channel_when_its_last_browser_is_revoked(person: Person):
    async with none_left(person):
        assert (await says(person, "gateway", "start")).returncode == 0
        link = json.loads((await says(person, "pair", "--json")).stdout)["links"]["web"]
        await enter(link)
        (browser,) = json.loads((await says(person, "pair", "list", "--json")).stdout)
        revoked = await says(person, "pair", "revoke", "web", browser["user_id"], "--yes")
        assert revoked.returncode == 0, revoked.stderr
        assert "forgotten" not in revoked.stdout
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            assert [home.platform for home in await owners.homes(store, ME)] == ["web"]


# The port


async def test_a_page_whose_port_is_in_use_reports_it_and_returns_to_it_later(person: Person):
    """The port is bound without listening, so that the system does not show by which account."""
    async with none_left(person):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            port = other.getsockname()[1]
            _configure(person, f"[web]\nport = {port}\n")
            held = f"port {port} is held by a process whose account is unknown."
            started = await says(person, "gateway", "start")
            assert f"web cannot be reached: {held}" in started.stdout
            shown = " ".join((await says(person, "status")).stdout.split())
            assert f"page not served: {held}" in shown
            paired = await says(person, "pair", "--no-wait")
            assert f"web cannot be reached: {held}" in paired.stdout
            assert "http://" not in paired.stdout
        async with asyncio.timeout(30):
            while not web_page.served_url(await alive(person)):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.05)
        assert web_page.served_url(await alive(person)) == f"http://127.0.0.1:{port}"


# The local network


def listening(gateway: GatewayRecord) -> set[str]:
    """The addresses on which its page is served, as the kernel writes them."""
    link = gateway.links[Platform.WEB].link
    assert link is not None
    port = f"{urlsplit(link).port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {
        where.partition(":")[0]
        for _, where, _, state, *_ in map(str.split, lines)
        if state == "0A" and where.endswith(f":{port}")
    }


@pytest.mark.parametrize("by", ["option", "setting"])
async def test_the_local_network_is_served_only_on_request_and_with_a_warning(
    person: Person, by: str
):
    if by == "setting":
        _configure(person, "[web]\nlan = true\n")
    person.environment.update(networks.LAN)
    options = ["--lan"] if by == "option" else []
    async with none_left(person):
        output = await says(person, "gateway", "start", *options)
        assert output.returncode == 0, output.stderr
        named = f"for the whole local network, at {networks.ADDRESS}"
        assert named in output.stdout
        assert named in " ".join((await says(person, "status")).stdout.split())
        assert "Warning: Everyone in the local network can reach the web page." in output.stdout
        assert "Everyone in the local network can reach the web page" in told_in(person)
        (gateway,) = await alive(person)
        own = {"127.0.0.1", networks.ADDRESS}
        assert listening(gateway) == {socket.inet_aton(one)[::-1].hex().upper() for one in own}


async def test_a_handoff_asks_once_whether_phones_may_open_the_page(person: Person):
    person.environment.update(networks.LAN)
    async with none_left(person):
        async with person.opens(lines=50) as shown:
            await begun(shown, "the boat is red")
            shown.say("/handoff web")
            await shown.see("May phones open the page?")
            await shown.shows("conversations cross the network unencrypted")
            assert await alive(person) == ()
            shown.say("y")
            assert await shown.end() == 0
            link = link_on(shown)
            assert urlsplit(link).hostname == networks.ADDRESS
            drawing = web_page.draw_qr(link, colours=False)
            assert drawing[5].translate(_INVERTED).strip() in "\n".join(shown.screen)
        async with open_browser(link) as browser:
            assert text(browser.history[0].html) == "the boat is red"
        async with person.opens("resume", "latest", lines=50) as shown:
            await shown.ready()
            shown.say("/handoff web")
            assert await shown.end() == 0
            assert "May phones" not in shown.text
            assert drawn_on(shown)
        assert (await says(person, "config", "get", "web.lan")).stdout == "true\n"


async def test_a_refusal_is_remembered_and_the_option_reverts_it(person: Person):
    """A running gateway is restarted for it."""
    person.environment.update(networks.LAN)
    async with none_left(person):
        assert (await says(person, "gateway", "start")).returncode == 0
        (before,) = await alive(person)
        async with person.opens(lines=50) as shown:
            await begun(shown, "hello")
            shown.say("/handoff web")
            await shown.see("May phones open the page?")
            shown.say("n")
            assert await shown.end() == 0
            await shown.shows("type `segue pair --lan`")
            assert not drawn_on(shown)
        assert await alive(person) == (before,)
        async with person.opens("resume", "latest", lines=50) as shown:
            await shown.ready()
            shown.say("/handoff web --lan")
            await shown.shows("Restarting the gateway, so that phones can open the page")
            assert await shown.end() == 0
            assert "May phones" not in shown.text
            assert drawn_on(shown)
            assert urlsplit(link_on(shown)).hostname == networks.ADDRESS


async def test_the_lan_option_lets_phones_open_the_page(person: Person):
    person.environment.update(networks.LAN)
    async with none_left(person):
        assert (await says(person, "-p", "hello")).returncode == 0
        assert (await says(person, "gateway", "start")).returncode == 0
        async with person.opens("pair", lines=50) as shown:
            await shown.see("type `segue pair --lan`")
            assert not drawn_on(shown)
        moved = await says(person, "handoff", "latest", "web", "--lan", "--json")
        link = json.loads(moved.stdout.splitlines()[-1])["link"]
        assert urlsplit(link).hostname == networks.ADDRESS
        async with person.opens("pair", "--lan", lines=50) as shown:
            await shown.see("Waiting until it is opened")
            assert "Restarting" not in shown.text, "it is served there already"
            assert drawn_on(shown)


async def test_without_a_local_network_the_question_is_not_asked(person: Person):
    _configure(person, "[web]\nlan = true\n")
    async with none_left(person):
        refused = await says(person, "pair", "--lan")
        assert "This machine is in no local network" in refused.stderr
        async with person.opens(lines=50) as shown:
            await begun(shown, "hello")
            shown.say("/handoff web")
            assert await shown.end() == 0
            assert urlsplit(link_on(shown)).hostname == "127.0.0.1"
            assert not drawn_on(shown)


async def test_the_lan_option_is_refused_for_other_platforms(person: Person):
    refused = await says(person, "handoff", "latest", "telegram", "--lan")
    assert refused.returncode == 2
    assert "--lan is for the web page" in refused.stderr
    async with person.opens() as shown:
        await begun(shown, "hello")
        shown.say("/handoff telegram --lan")
        await shown.shows("--lan is for the web page. Type /handoff web --lan.")
        await shown.ready()


async def test_by_default_the_page_is_for_this_machine_only(person: Person):
    async with none_left(person):
        output = await says(person, "gateway", "start")
        assert ", for this machine only. Type `segue pair` to open it." in output.stdout
        assert "Warning" not in output.stdout
        assert "Everybody" not in told_in(person)
        (gateway,) = await alive(person)
        assert listening(gateway) == {"0100007F"}


async def test_a_page_whose_port_is_taken_says_where_it_is_and_why(person: Person):
    async with none_left(person):
        with socket.create_server(("127.0.0.1", 0)) as other:
            last = PageLocation(port=other.getsockname()[1], addresses=("127.0.0.1",))
            async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
                await pages.record_location(store, machine(), last)
            output = await says(person, "gateway", "start")
        held = f"port {last.port} is held by another program of yours, so the page is on port "
        [port] = re.findall(f"P{held[1:]}(\\d+); open it with a new link\\.\n", output.stdout)
        assert f"The web page is at http://127.0.0.1:{port}," in output.stdout
        for command in (["status"], ["gateway", "status"]):
            shown = " ".join((await says(person, *command)).stdout.split())
            assert f"({held}{port}; open it with a new link)" in shown


async def test_the_lan_option_is_refused_while_the_page_is_disabled(person: Person):
    _configure(person, "[web]\nenabled = false\n")
    for command in ("start", "run"):
        refused = await says(person, "gateway", command, "--lan")
        assert refused.returncode == 1
        assert "The web page is disabled" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert await alive(person) == ()
