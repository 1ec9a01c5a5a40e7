"""Where the page is served. These tests have an address of the loopback network to themselves."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

import pytest

from segue.web import ports
from segue.web.ports import USUAL


@pytest.fixture
def host() -> str:
    process = os.getpid()
    return f"127.77.{process >> 8 & 255}.{process & 255}"


def on(host: str, port: int | None = None) -> int:
    """The port that is found there."""
    with ports.bound(host, port) as found:
        return found.getsockname()[1]


def test_a_page_is_where_it_was_before_even_if_others_have_the_first_ports(host: str):
    with ports.bound(host, None) as first, ports.bound(host, None) as second:
        assert [s.getsockname()[1] for s in (first, second)] == [*USUAL[:2]]
        assert [on(host), on(host)] == [USUAL[2], USUAL[2]]
    assert on(host) == USUAL[0]


def test_where_all_usual_ports_are_taken_there_is_still_a_page(host: str):
    with contextlib.ExitStack() as stack:
        for _ in USUAL:
            stack.enter_context(ports.bound(host, None))
        assert on(host) not in (0, *USUAL)


def test_a_port_that_was_asked_for_is_that_one_or_none(host: str):
    with ports.bound(host, USUAL[5]) as found:
        assert found.getsockname()[1] == USUAL[5]
        with pytest.raises(OSError) as refused:  # noqa: PT011 - its number says it
            ports.bound(host, USUAL[5])
        assert refused.value.errno == errno.EADDRINUSE


def test_a_port_is_ours_before_anybody_is_served(host: str):
    with ports.bound(host, None), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((host, USUAL[0]))
