"""Pauses between attempts."""

from __future__ import annotations

from segue.system.backoff import Backoff, pause


def test_pauses_grow_and_vary_up_to_a_limit():
    for attempt, most in enumerate([1, 2, 4, 8, 10, 10, 10], start=1):
        pauses = [pause(attempt, 1, 10) for _ in range(50)]
        assert all(most / 2 <= it <= most for it in pauses)
        assert len(set(pauses)) > 1


def test_the_pause_after_a_million_failures_is_the_longest():
    assert 5 <= pause(1_000_000, 1, 10) <= 10


def test_after_a_success_pauses_start_over():
    backoff = Backoff(least=1, most=100)
    assert backoff.next() <= 1 < backoff.next() <= 2 < backoff.next()
    backoff.reset()
    assert backoff.next() <= 1
