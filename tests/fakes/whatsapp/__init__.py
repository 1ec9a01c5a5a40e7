"""A strict fake of WhatsApp's Cloud API: calls behind real HTTP, and webhooks to a real server.

    async with serving() as peer, peer.driver() as driver:
        await driver.subscribe("http://127.0.0.1:8790/hooks/whatsapp", "a verify token")
        anna = await driver.user("Anna")
        await driver.say(anna, "hello")
        shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=anna)
        assert not shown.errors

It answers with the codes and statuses that Meta documents. It refuses unknown fields and what is
over a limit, and records that in `errors`. Its webhook requests are signed, and repeated until they
are answered by 200. A message outside of the window of 24 hours is accepted, and fails later.

Faults use these names: `send`, `mark_read`, `upload`, `get_media`, `download`, `get_number`.
"""

from __future__ import annotations

from segue.testing.peers import FileKind, OrderRefused, Trouble, Upload
from tests.fakes.whatsapp.control import Driver
from tests.fakes.whatsapp.server import FAKE as FAKE
from tests.fakes.whatsapp.server import TOKEN, Peer, running, serving
from tests.fakes.whatsapp.state import APP_SECRET, NUMBER, PHONE, Message, Settings, Shown

__all__ = [
    "APP_SECRET", "NUMBER", "PHONE", "TOKEN", "Driver", "FileKind", "Message",
    "OrderRefused", "Peer", "Settings", "Shown", "Trouble", "Upload", "running", "serving",
]  # fmt: skip
