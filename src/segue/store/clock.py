"""The two clocks of a store: one that people read, and one that does not jump."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from segue.core.lease import Ticks

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, for what people read."""
        ...

    def ticks(self) -> Ticks:
        """Microseconds that only ever grow, the same in every process of the machine."""
        ...

    def era(self) -> str:
        """Changes when ticks start anew, as they do when the machine starts."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def ticks(self) -> Ticks:
        # Counts through suspend where the system can: a laptop that slept must not wake up
        # believing that its leases are fresh.
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return Ticks(time.clock_gettime_ns(clock) // 1000)

    def era(self) -> str:
        if _BOOT_ID.exists():
            return _BOOT_ID.read_text().strip()
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            return answer.stdout.strip()
        return ""
