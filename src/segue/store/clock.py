"""The store's two clocks: wall time for display, and ticks, which do not jump."""

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
        """Wall time, for display."""
        ...

    def ticks(self) -> Ticks:
        """Microseconds that only increase, the same in every process on the machine."""
        ...

    def era(self) -> str:
        """An id that changes when ticks start again from zero, as they do at boot."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def ticks(self) -> Ticks:
        # Counts time in suspend where the OS can: a laptop that slept must not wake up with leases
        # that look fresh.
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
