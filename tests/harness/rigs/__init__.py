"""The platforms that the end-to-end and kill suites run on.

A platform brings one module with one `PlatformRig`: how to start its fake, which settings lead to
it, how users act there, and what they see. `ALL` lists the rigs; the suites run on each of them.
"""

from __future__ import annotations

from tests.harness.rigs.base import Call as Call
from tests.harness.rigs.base import File as File
from tests.harness.rigs.base import Kind as Kind
from tests.harness.rigs.base import Message as Message
from tests.harness.rigs.base import PlatformRig as PlatformRig
from tests.harness.rigs.base import Thread as Thread
from tests.harness.rigs.base import View as View
from tests.harness.rigs.discord import DiscordRig as DiscordRig
from tests.harness.rigs.generic import GenericRig as GenericRig
from tests.harness.rigs.generic import KeylessRig as KeylessRig
from tests.harness.rigs.generic import ShortRig as ShortRig
from tests.harness.rigs.signal import SignalChatsRig as SignalChatsRig
from tests.harness.rigs.signal import SignalRig as SignalRig
from tests.harness.rigs.slack import SlackRig as SlackRig
from tests.harness.rigs.telegram import TelegramRig as TelegramRig
from tests.harness.rigs.whatsapp import WhatsAppRig as WhatsAppRig

ALL: tuple[type[PlatformRig], ...] = (
    *(GenericRig, TelegramRig, DiscordRig, SlackRig),
    *(WhatsAppRig, SignalRig),
)
THREADED = tuple(rig for rig in ALL if rig.forum.threads)
"""Those that have threads."""
EDITING = tuple(rig for rig in ALL if rig.edits)
"""Those on which an answer can be seen while it is written."""
KEYLESS: tuple[type[PlatformRig], ...] = (KeylessRig, TelegramRig, SignalRig)
"""Those on which a message may arrive without the gateway knowing it."""
KEYLESS_THREADED = tuple(rig for rig in KEYLESS if rig.forum.threads)
