"""Defaults for adapters: what a platform does that does not have a feature."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import DeliveryFailed
from segue.platforms.base import (
    Attachment,
    Button,
    Capabilities,
    Finding,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)


class BaseAdapter:
    """The parts of the Adapter protocol that not every platform has.

    An adapter derives from this class, sets the three attributes, and writes `connect`, `close`,
    `receive`, `send`, and what else its platform can do. `segue.platforms.base` documents the
    methods.
    """

    platform: Platform
    capabilities: Capabilities
    account: str = ""

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        raise self._unable("messages there cannot be edited")

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        raise self._unable("it takes no files")

    async def fetch(self, attachment: Attachment) -> bytes:
        raise self._unable("it has no files")

    async def typing(self, at: Address) -> None:
        raise self._unable("it has no typing indicator")

    def previews(self, at: Address) -> bool:
        return False

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        raise self._unable("it has no previews")

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        return None

    def acknowledge(self, press: Inbound) -> None:
        """Do nothing."""

    def how_to_address(self, at: Address) -> str:
        return ""

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        """Do nothing."""

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    def pairing_link(self, code: str) -> str | None:
        return None

    def _unable(self, reason: str) -> DeliveryFailed:
        return DeliveryFailed(platform=self.platform, reason=reason)
