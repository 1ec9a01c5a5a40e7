"""Which files a platform takes. Known before its adapter is loaded, so that nobody is asked about a
file that cannot be sent."""

from __future__ import annotations

import mimetypes

from msgspec import Struct

_ANY_TYPE = "application/octet-stream"
_MEGABYTE = 1024 * 1024


class UploadKind(Struct, frozen=True, kw_only=True):
    """Types of files that a platform takes in one way."""

    name: str
    """The platform's name for it."""
    most: int
    """Largest file in bytes."""
    types: tuple[str, ...]
    """Media types. One that ends in a slash stands for all that start with it."""
    sent_as: str = ""
    """The media type to give. Empty if it is that of the file."""

    def has(self, media_type: str) -> bool:
        families = tuple(it for it in self.types if it.endswith("/"))
        return media_type in self.types or media_type.startswith(families)


class UploadRules(Struct, frozen=True, kw_only=True):
    """The files that can be sent on a platform."""

    most: int
    """Largest file in bytes. 0 if no files can be sent."""
    kinds: tuple[UploadKind, ...] = ()
    """The types of files. Empty if any type can be sent."""

    def kind(self, media_type: str, size: int) -> UploadKind | None:
        """Return how such a file is sent, or None if it cannot be."""
        return next((it for it in self.kinds if it.has(media_type) and size <= it.most), None)

    def refusal(self, name: str, size: int) -> str:
        """Return why a file cannot be sent, or an empty string if it can."""
        if not self.most:
            return "no files can be sent there"
        if size > self.most:
            return f"only {self.most // _MEGABYTE} MB can be sent there"
        kind = media_type(name)
        if not self.kinds or self.kind(kind, size) is not None:
            return ""
        largest = max((it.most for it in self.kinds if it.has(kind)), default=0)
        if not largest:
            return f"files of the type {kind} cannot be sent there"
        return f"files of the type {kind} can have at most {largest // _MEGABYTE} MB there"


def media_type(name: str) -> str:
    """Return the media type of a file with this name."""
    return mimetypes.guess_type(name)[0] or _ANY_TYPE
