"""What the suites need of each platform: one package, or one module, per platform.

Its `PlatformRig` is for the end-to-end and kill suites: how to start the fake, which settings lead
to it, the names of its methods, how users act there, and what they see. `ALL` lists the rigs; the
suites run on each of them. `contract` has Anna, as whom the contract suite acts, and `specimens`
the valid updates from which it makes malformed ones. The rig of the test platform for the contract
suite is `segue.testing.platform.rig`.
"""

from __future__ import annotations

from tests.rigs.base import File as File
from tests.rigs.base import Kind as Kind
from tests.rigs.base import Message as Message
from tests.rigs.base import PlatformRig as PlatformRig
from tests.rigs.base import Thread as Thread
from tests.rigs.base import View as View
from tests.rigs.discord import DiscordRig as DiscordRig
from tests.rigs.generic import GenericRig as GenericRig
from tests.rigs.generic import KeylessRig as KeylessRig
from tests.rigs.generic import ShortRig as ShortRig
from tests.rigs.signal import SignalChatsRig as SignalChatsRig
from tests.rigs.signal import SignalRig as SignalRig
from tests.rigs.slack import SlackRig as SlackRig
from tests.rigs.telegram import TelegramRig as TelegramRig
from tests.rigs.whatsapp import WhatsAppRig as WhatsAppRig

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
