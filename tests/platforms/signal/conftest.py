"""A strict Signal fake with an account."""

from __future__ import annotations

from tests.fakes.signal import FAKE
from tests.harness.fakes import fixtures
from tests.platforms.signal.rig import SignalRig

peer, rig = fixtures(FAKE, SignalRig)
