"""The place of a turn: what the agent knows about the chat and the user."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from segue.core.address import Address, Platform
from segue.core.approval import Approve
from segue.core.context import Context
from segue.core.job import Job
from segue.jobs.service import unattended
from segue.platforms.base import Inbound
from segue.turns import Place
from segue.turns.brain import deny_all
from segue.turns.runner import HERE

PlatformsNow = Callable[[], Collection[Platform]]
"""Returns platforms in their current state, such as those that are connected."""


class Places:
    def __init__(self, name: str, connected: PlatformsNow) -> None:
        self.name = name
        """Shown to other processes as the holder of a session."""
        self._connected = connected

    def place(
        self, address: Address, *, inbound: Inbound | None = None, approve: Approve = deny_all
    ) -> Place:
        """The place for a turn at `address`. Without `approve`, every approval is denied."""
        context = Context(
            source=address,
            topic=inbound.topic if inbound else "",
            user=inbound.sender.name if inbound else "",
            connected=tuple(sorted(self._connected())),
        )
        return Place(context=context, holder=self.name, deliver_to=address, approve=approve)

    def run(self, job: Job, address: Address | None, approve: Approve) -> Place:
        """The place for a run of `job`, which asks for approvals at `address`. Without one, every
        approval is denied. Nothing that the agent says there is sent by itself."""
        rules = unattended(job)
        if address is None:
            terminal = replace(HERE.context, connected=tuple(sorted(self._connected())))
            return Place(context=terminal, holder=self.name, unattended=rules)
        here = self.place(address, approve=approve)
        return replace(here, deliver_to=None, unattended=rules)
