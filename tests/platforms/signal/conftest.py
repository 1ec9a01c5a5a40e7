"""A strict Signal fake with an account."""

from __future__ import annotations

from tests.fakes.signal import FAKE
from tests.harness.fakes import fixtures
from tests.rigs.signal.contract import AnnaOnSignal

peer, rig = fixtures(FAKE, AnnaOnSignal)
