"""This machine's private network addresses, which other machines can reach and the internet
cannot."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable
from ipaddress import IPv4Address

LOOPBACK = "127.0.0.1"

_GET_ADDRESS = {"linux": 0x8915, "darwin": 0xC0206921}
"""SIOCGIFADDR."""


def private_addresses() -> tuple[str, ...]:
    """The machine's private addresses, with the default one last."""
    default = _default_address()
    found = {address for address in _interface_addresses() if is_private(address)}
    return tuple(sorted(found, key=lambda address: (address == default, IPv4Address(address))))


def is_private(address: str) -> bool:
    """Whether machines in a local network can reach the address, and the internet cannot."""
    parsed = IPv4Address(address)
    return parsed.is_private and not parsed.is_loopback


def _interface_addresses() -> Iterable[str]:
    """The default address, and the IPv4 address of each network interface."""
    yield _default_address()
    get_address = _GET_ADDRESS.get(sys.platform)
    if get_address is None:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", os.fsencode(name))
            try:
                answer = fcntl.ioctl(asking, get_address, request)
            except OSError:  # no address on this interface
                continue
            yield socket.inet_ntoa(answer[20:24])


def _default_address() -> str:
    """The machine's default address in the local network. Sends nothing to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return LOOPBACK
        return probe.getsockname()[0]
