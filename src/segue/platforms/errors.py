"""Failures of calls to a platform, and their translation to the contract's errors.

A client raises Refused or Lost. Each adapter has one `Failures` with the platform's own rules.
The functions at the end are the sentences that more than one place reports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from segue.core.address import Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, PlatformError, SetupNeeded

NONSENSE = "its answer makes no sense"

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What msgspec raises for a malformed document. Deep nesting is a RecursionError."""

T = TypeVar("T")


class Refused(Exception):
    """The platform rejected the call."""

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        code: str = "",
        after: float | None = None,
        ends_early: bool = False,
        moved_to: object = None,
    ) -> None:
        """`code` is the platform's name for the error, if it has one. `after` is how many seconds
        to wait, and `ends_early` whether the user can end that wait. `moved_to` is the new id of
        the chat, if the call was refused because it moved."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.code = code
        self.after = after
        self.ends_early = ends_early
        self.moved_to = moved_to
        self.arrived = status >= 500
        """A server error may have happened after the effect."""

    def says(self, *fragments: str | None) -> bool:
        """Whether the code is one of these, or the reason contains one of these lower-case
        fragments."""
        reason = self.reason.lower()
        return any(it is not None and (it == self.code or it in reason) for it in fragments)


class Lost(Exception):
    """No valid response. With `arrived`, the call may have had its effect."""

    def __init__(self, reason: str, *, arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.arrived = arrived


class Unusable(Lost):
    """A value of the settings cannot be right, so nothing was sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, arrived=False)


class FailureRule(Struct, frozen=True):
    """The meaning of some refusals."""

    reason: str = ""
    """For the user, with what to do. Empty for the platform's own reason."""
    says: tuple[str, ...] = ()
    """Codes, or lower-case fragments of the reason. Empty matches every refusal."""
    status: tuple[int, ...] = ()
    """HTTP statuses. Empty matches all."""
    retry: bool | None = None
    """Whether to try again. None: after a 429 or a server error."""
    account: bool = False
    """The account is at fault, not the message: ConnectFailed."""
    setup: bool = False
    """Another attempt to connect is pointless until the user changes something: SetupNeeded."""

    def matches(self, refused: Refused) -> bool:
        if self.status and refused.status not in self.status:
            return False
        return not self.says or refused.says(*self.says)


class Failures:
    """Translates the failures of one platform."""

    def __init__(
        self,
        platform: Platform,
        *,
        connecting: Sequence[FailureRule] = (),
        delivering: Sequence[FailureRule] = (),
        no_threads: Sequence[FailureRule] = (),
        thread_gone: str = "the thread was deleted",
        bad_markup: str | None = None,
        unchanged: str | None = None,
        known: Mapping[type[Exception], Callable[[Exception], Refused | Lost]] | None = None,
    ) -> None:
        """The first rule that matches counts. `no_threads` is for a chat where the bot cannot open
        any. `thread_gone` is the reason for a message that landed outside of its thread. With
        `bad_markup` the platform rejects markup, so that plain text may succeed, and with
        `unchanged` an edit that changes nothing. `known` has the exceptions of the platform's
        library, and what each of them means."""
        self.platform = platform
        self._connecting = connecting
        self._delivering = delivering
        self.no_threads = no_threads
        self.thread_gone = thread_gone
        self.bad_markup = bad_markup
        self.unchanged = unchanged
        self._known = known or {}
        self.all: tuple[type[Exception], ...] = (Refused, Lost, *self._known)
        """The errors that a call can raise, for `except`."""

    @contextlib.contextmanager
    def connecting(self) -> Generator[None]:
        """Translate failures to ConnectFailed, or to SetupNeeded if only the user can help."""
        try:
            yield
        except self.all as error:
            found = self.read(error)
            if isinstance(found, Refused):
                rule = _rule(found, self._connecting)
                reason = rule.reason or found.reason
                raise self.unreachable(reason, found.after, setup=rule.setup) from error
            raise self.unreachable(found.reason, setup=isinstance(found, Unusable)) from error

    @contextlib.contextmanager
    def delivering(self) -> Generator[None]:
        """Translate failures to DeliveryFailed, or to ConnectFailed if the account is at fault."""
        try:
            yield
        except self.all as error:
            raise self._undelivered(self.read(error)) from error

    def read(self, error: Exception) -> Refused | Lost:
        """Translate an exception of `all` to Refused or Lost."""
        if isinstance(error, Refused | Lost):
            return error
        readers = [read for kind, read in self._known.items() if isinstance(error, kind)]
        return readers[0](error)

    def reason(self, refused: Refused) -> str:
        """Why the platform did not deliver a message, for the user."""
        return _rule(refused, self._delivering).reason or refused.reason

    def unreachable(
        self, reason: str, after: float | None = None, *, setup: bool = False
    ) -> ConnectFailed:
        """The error for a platform that cannot be reached, or that needs `setup` by the user."""
        kind = SetupNeeded if setup else ConnectFailed
        return kind(platform=self.platform, reason=reason, after=after)

    def undelivered(self, reason: str, *, arrived: bool = False) -> DeliveryFailed:
        """The error for a message that must not be sent again."""
        return DeliveryFailed(platform=self.platform, reason=reason, arrived=arrived)

    def _undelivered(self, found: Refused | Lost) -> DeliveryFailed | ConnectFailed:
        if isinstance(found, Lost):
            return DeliveryFailed(
                platform=self.platform, reason=found.reason, retry=True, arrived=found.arrived
            )
        rule = _rule(found, self._delivering)
        reason = rule.reason or found.reason
        if rule.account:
            return self.unreachable(reason)
        retry = rule.retry
        if retry is None:
            retry = found.arrived or found.status == 429
        return DeliveryFailed(
            platform=self.platform,
            reason=reason,
            retry=retry,
            after=found.after,
            arrived=found.arrived,
            ends_early=found.ends_early,
        )


@contextlib.contextmanager
def tolerating_absence() -> Generator[None]:
    """Suppress the refusal of a call about something that does not exist, or that the bot may not
    see."""
    try:
        yield
    except Refused as refused:
        if refused.status not in (400, 403, 404):
            raise


def parsed(raw: bytes | memoryview | str, kind: type[T]) -> T | None:
    """The JSON document as `kind`, or None if it is malformed."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE:
        return None


def converted(value: object, kind: type[T]) -> T | None:
    """A value that was parsed from JSON as `kind`, or None if it is malformed."""
    try:
        return msgspec.convert(value, kind)
    except UNREADABLE:
        return None


def bad_adapter(platform: Platform, reason: str) -> PlatformError:
    return PlatformError(
        f"The adapter for {platform} cannot be loaded: {reason}. Check platforms.{platform}.adapter"
        f" with `segue config show`, or set platforms.{platform}.enabled to false."
    )


def not_set_up(platform: Platform, reason: str) -> PlatformError:
    return PlatformError(
        f"{platform} is not set up yet: {reason}. Fix that, then type `segue setup {platform}`"
        " again."
    )


def _rule(refused: Refused, rules: Sequence[FailureRule]) -> FailureRule:
    return next((rule for rule in rules if rule.matches(refused)), FailureRule())
