"""The address of the page. These tests use a separate address of the loopback network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Generator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

import segue.store
from segue.core.address import Platform, Sender
from segue.core.errors import ConnectFailed
from segue.core.session import ME
from segue.store import owners, pages, pairings
from segue.store.pages import PageLocation
from segue.store.processes import machine
from segue.system import accounts
from segue.web import endpoints
from segue.web.endpoints import USUAL, PortHeld
from segue.web.http import MOST_STRANGERS
from tests.web.bare_server import Door, web_adapter
from tests.web.handshake import Key, opened, prove

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another account")


@pytest.fixture
def host() -> str:
    process = os.getpid()
    return f"127.77.{process >> 8 & 255}.{process & 255}"


@contextlib.contextmanager
def bound(host: str, port: int | None = None, last: int | None = None) -> Generator[socket.socket]:
    [found] = endpoints.bound([host], port, last).sockets
    with found:
        yield found


def on(host: str, port: int | None = None, last: int | None = None) -> int:
    """The port that is found there."""
    with bound(host, port, last) as found:
        return found.getsockname()[1]


def test_a_page_returns_to_its_last_port_even_if_the_first_ports_are_in_use(host: str):
    with bound(host) as first, bound(host) as second:
        assert [s.getsockname()[1] for s in (first, second)] == [*USUAL[:2]]
        assert [on(host), on(host)] == [USUAL[2], USUAL[2]]
    assert on(host) == USUAL[0]
    assert on(host, last=USUAL[2]) == USUAL[2]


def test_a_port_other_than_the_wanted_one_comes_with_the_reason(host: str):
    for wanted, last in ((USUAL[0], None), (USUAL[3], USUAL[3])):
        assert endpoints.bound([host], None, last).held is None
        with bound(host, wanted):
            [found], held = endpoints.bound([host], None, last)
            found.close()
        assert held is not None
        assert held.reason == f"port {wanted} is held by another program of yours"


def test_a_page_is_served_even_if_all_usual_ports_are_in_use(host: str):
    with contextlib.ExitStack() as stack:
        for _ in USUAL:
            stack.enter_context(bound(host))
        assert on(host) not in (0, *USUAL)


def test_a_configured_port_that_is_in_use_is_an_error(host: str):
    with bound(host, USUAL[5]) as found:
        assert found.getsockname()[1] == USUAL[5]
        with pytest.raises(PortHeld, match=f"port {USUAL[5]} is held by another program of yours"):
            on(host, USUAL[5])


def test_a_port_is_bound_before_the_first_request(host: str):
    with bound(host), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((host, USUAL[0]))


def test_all_addresses_have_the_same_port(host: str):
    with bound(host):  # so that the first is not free at one of them
        found = endpoints.bound(["127.0.0.1", host], None).sockets
        assert len({one.getsockname()[1] for one in found}) == 1
        assert [one.getsockname()[0] for one in found] == ["127.0.0.1", host]
        for one in found:
            one.close()


# Accounts that use the last port


def test_a_page_moves_to_another_port_if_the_same_account_uses_its_port(host: str):
    with bound(host, USUAL[3]):
        assert on(host, last=USUAL[3]) == USUAL[0]


def test_a_page_does_not_move_if_the_account_that_uses_its_port_is_unknown(
    host: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.system.accounts.TABLES", ())
    with bound(host, USUAL[3]), pytest.raises(PortHeld, match="whose account is unknown") as held:
        on(host, last=USUAL[3])
    assert not held.value.is_foreign


def of_another_account(family: int = socket.AF_INET) -> socket.socket:
    os.seteuid(NOBODY)
    try:
        return socket.socket(family)
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def impostor(port: int) -> Generator[None]:
    """Another account's process listens there."""
    with of_another_account() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        yield


@as_root
async def test_a_page_does_not_move_if_another_account_uses_its_port(tmp_path: Path, port: int):
    """The browsers that were paired there must be paired again: that account may have served them
    pages that can use their keys."""
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        await owners.ensure(store, ME)
        await pages.record_location(
            store, machine(), PageLocation(port=port, addresses=("127.0.0.1",))
        )
        for n, origin in enumerate((f"http://127.0.0.1:{port}", "http://127.0.0.1:1")):
            sender = Sender(platform=Platform.WEB, user_id=f"{n}")
            link, _ = pairings.link_keys(await pairings.link(store, ME))
            await pairings.admit(store, link, sender, "00", origin)
        adapter = web_adapter(store)
        with impostor(port):
            with pytest.raises(ConnectFailed) as failed:
                await adapter.connect()
            assert f"port {port} is held by the account nobody (uid {NOBODY})" in str(failed.value)
            assert "segue config set web.port" in str(failed.value)
        assert [i.sender.user_id for i in await owners.identities(store, ME)] == ["1"]
        await adapter.connect()
        assert await pages.location(store, machine()) == PageLocation(
            port=port, addresses=("127.0.0.1",)
        )
        await adapter.close()


NO_PROTOCOL = 31
"""A protocol of netlink that no kernel has."""
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2256 00000000:0000 0A 00000000:00000000 00:00000000 00000000  {uid}        0 2 1
   1: 0100007F:2257 0100007F:2256 01 00000000:00000000 00:00000000 00000000  {uid}        0 3 1
   2: 0100007F:2258 0100007F:2256 01 00000000:00000000 00:00000000 00000000  {other}        0 4 1
   3: 0100007F:2259 0100007F:2256 01 00000000:00000000 00:00000000 00000000     0        0 5 1
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's table: our own process listens on 8790 and has connected to it, and so have
    another account and root. The kernel finds no socket without it."""
    monkeypatch.setattr("segue.system.accounts._SOCK_DIAG", NO_PROTOCOL)
    path = tmp_path / "tcp"
    path.write_text(TABLE.format(uid=os.getuid(), other=os.getuid() + 1))
    monkeypatch.setattr("segue.system.accounts.TABLES", (tmp_path / "none", path))
    return path


def test_the_account_that_listens_on_a_port_is_found(table: Path):
    assert accounts.holder(8790) == os.getuid()
    assert accounts.holder(8791) is None  # it has a connection, and does not listen
    table.write_text(TABLE.format(uid=os.getuid() + 1, other=0))
    assert accounts.holder(8790) == os.getuid() + 1


@pytest.mark.usefixtures("table")
def test_the_account_of_a_connection_is_found():
    here = ("127.0.0.1", 8790)
    for port, is_foreign in ((8791, False), (8792, True), (8793, False), (8794, False)):
        assert accounts.is_foreign(("127.0.0.1", port), here) is is_foreign
    assert not accounts.is_foreign(("127.0.0.2", 8792), here)
    assert not accounts.is_foreign(("192.168.1.2", 8792), ("192.168.1.3", 8790))


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_closed_connection_is_of_no_account_and_needs_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reset: bool
):
    """Strangers who connect and close at once would make the server read the table each time, and
    the kernel says that root owns what they have closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = server.getsockname()
        made = socket.create_connection(here)
        peer = made.getsockname()
        assert accounts.connected(peer, here) == {os.getuid()}
        ends = f"0100007F:{peer[1]:04X} 0100007F:{here[1]:04X}"
        table = tmp_path / "tcp"
        table.write_text(f"0: {ends} 01 00000000:00000000 00:00000000 00000000 {NOBODY} 0 4 1\n")
        monkeypatch.setattr("segue.system.accounts.TABLES", (table,))
        if is_reset:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()
        assert accounts.connected(peer, here) == frozenset()


@as_root
@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
async def test_a_connection_of_another_account_is_refused_even_with_the_key(
    door: Door, address: str
):
    """It could be an impostor that was on the port before, and relays the frames of an open page to
    the gateway."""
    key = await door.key()
    made = of_another_account(socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.connect((address, door.port))
    async with opened(door.server.url, sock=made) as wire:
        assert await prove(wire, door.server.url, Key("other", key.secret)) is None
        with pytest.raises(ConnectionClosed):
            await prove(wire, door.server.url, key)
    assert await door.knows(key)


# The local network


@pytest.mark.parametrize("address", ["10.0.0.1", "172.16.0.1", "192.168.178.20", "169.254.1.1"])
def test_an_address_of_a_private_network_is_private(address: str):
    assert endpoints.is_private(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "8.8.8.8", "172.32.0.1", "100.64.0.1"])
def test_any_other_address_is_not_private(address: str):
    assert not endpoints.is_private(address)


def test_only_private_addresses_of_this_machine_are_listed():
    found = endpoints.private_addresses()
    assert all(map(endpoints.is_private, found))
    assert len(found) == len(set(found))


async def test_without_a_private_network_the_page_is_for_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("segue.web.endpoints.private_addresses", lambda: ())
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        await owners.ensure(store, ME)
        adapter = web_adapter(store, lan=True)
        await adapter.connect()
        place = await pages.location(store, machine())
        assert place is not None
        assert place.addresses == ("127.0.0.1",)
        assert "page served to this machine only: it is in no local network" in caplog.text
        await adapter.close()


@as_root
async def test_a_flood_by_another_account_does_not_keep_the_owner_out(door: Door):
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(socket.create_connection(("127.0.0.1", door.port)))
        ours.setblocking(False)
        await door.ask("/")  # the server has accepted ours before
        for _ in range(2 * MOST_STRANGERS):
            theirs = stack.enter_context(of_another_account())
            theirs.setblocking(False)
            await loop.sock_connect(theirs, ("127.0.0.1", door.port))
        await loop.sock_sendall(ours, f"GET / HTTP/1.1\r\nHost: {door.host}\r\n\r\n".encode())
        assert (await loop.sock_recv(ours, 100)).startswith(b"HTTP/1.1 200 OK")
