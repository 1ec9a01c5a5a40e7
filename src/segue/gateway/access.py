"""Access control: who may talk to the agent. Every inbound update passes through the gate first,
and the gate looks only at the sender's immutable id. Updates from unknown senders are dropped."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct, structs

from segue.core.address import ChatType, HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, PairingRefused
from segue.gateway import messages, texts
from segue.gateway.messages import PendingMessage
from segue.platforms.base import Inbound, InboundKind
from segue.store import Store, Tx, inbox, outbox, owners, pairings
from segue.store.pairings import looks_like_code

MAX_GUESSES = 5
"""Pairing codes per sender and GUESS_WINDOW seconds. `segue.store.pairings` explains the odds."""
GUESS_WINDOW = 600.0

_PAIRING = frozenset({InboundKind.MESSAGE, InboundKind.COMMAND})
_START = "/start"
_Guesser = tuple[Platform, str]

logger = logging.getLogger(__name__)


class Answered(Struct, frozen=True):
    """A pairing code was answered."""

    new_home: PendingMessage | None = None
    """The code, if its chat became the home channel: the bot may not be able to write there."""


class Gate:
    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._guesses: deque[tuple[float, _Guesser]] = deque()
        """Recent attempts with their times, oldest first."""
        self._counts: Counter[_Guesser] = Counter()

    async def wants(self, sender: Sender, text: str) -> bool:
        """Whether what that sender wrote can have an effect: they are paired, or it may be a
        code."""
        if looks_like_code(_code(text)):
            return True
        return await owners.who(self._store, sender.platform, sender.user_id) is not None

    async def pair(self, account: str, inbound: Inbound) -> Answered | None:
        """Link the sender, who may be paired already, to the owner whose code they sent, in one
        transaction with the reply. Return None, without a reply, if the update holds no valid
        code. After too many wrong codes a correct one is voided: if the reply only confirmed it,
        anyone could keep guessing and redeem it from another account."""
        if inbound.kind not in _PAIRING:
            return None
        code = _code(inbound.typed)
        if not looks_like_code(code):
            return None
        if not self._may_guess(inbound.sender):
            logger.warning("too many pairing codes platform=%s", inbound.sender.platform)
            return await self._store.write(_refuse, account, inbound, code)
        try:
            answered = await self._store.write(_pair, account, inbound, code)
        except (PairingRefused, IdentityTaken):
            logger.warning("wrong pairing code platform=%s", inbound.sender.platform)
            return None
        logger.info("user paired platform=%s", inbound.sender.platform)
        return answered

    def _may_guess(self, sender: Sender) -> bool:
        now = self._clock()
        guesser = (sender.platform, sender.user_id)
        while self._guesses and self._guesses[0][0] <= now - GUESS_WINDOW:
            _, past = self._guesses.popleft()
            self._counts[past] -= 1
            if not self._counts[past]:
                del self._counts[past]
        if self._counts[guesser] >= MAX_GUESSES:
            return False
        self._guesses.append((now, guesser))
        self._counts[guesser] += 1
        return True


def _code(text: str) -> str:
    return text.strip().removeprefix(_START).strip()


def _pair(tx: Tx, account: str, inbound: Inbound, code: str) -> Answered:
    owner = pairings.redeem(tx, code, inbound.sender)
    home = _new_home(tx, owner.id, inbound)
    if home is None:
        _answer(tx, account, inbound, code, texts.PAIRED)
        return Answered()
    owners.set_home(tx, owner.id, home)
    paired = structs.replace(inbound, kind=InboundKind.PAIRED, text=code)
    no = _answer(tx, account, paired, code, texts.PAIRED_AT_HOME)
    if no is None:
        return Answered()
    return Answered(PendingMessage(inbox_id=no, owner=owner.id, inbound=paired))


def _refuse(tx: Tx, account: str, inbound: Inbound, code: str) -> Answered | None:
    if not pairings.void(tx, code):
        return None
    _answer(tx, account, inbound, code, texts.TOO_MANY_CODES)
    return Answered()


def _answer(tx: Tx, account: str, inbound: Inbound, code: str, body: str) -> int | None:
    """Queue the reply, and return the number of the inbox entry, which is finished unless the reply
    is awaited. None for a redelivery, which must not become a message."""
    awaited = inbound.kind is InboundKind.PAIRED
    content = messages.encode(inbound) if awaited else ""
    no = inbox.record(tx, account, inbound.update_id, inbound.address, content)
    if no is None:
        return None
    if not awaited:
        inbox.finish(tx, [no])
    outbox.enqueue(tx, messages.pairing_reply(code, inbound.address, body))
    return no


def _new_home(tx: Tx, owner: str, inbound: Inbound) -> HomeChannel | None:
    """The chat that sent the first code as the home channel, unless others can read it."""
    address = inbound.address
    if inbound.readers or address.chat_type is not ChatType.DM:
        return None
    if any(home.platform is address.platform for home in owners.homes(tx, owner)):
        return None
    return messages.as_home(inbound)
