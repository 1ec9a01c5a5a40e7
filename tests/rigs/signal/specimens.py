"""Valid events of the daemon, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen
from tests.fakes.signal import ME, NUMBER

ANNA = "22222222-0000-4000-8000-000000000009"
AT = 1_790_000_000_000
GROUP = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
DATA: dict[str, Any] = {
    "timestamp": AT, "message": "status", "expiresInSeconds": 0, "viewOnce": False,
}  # fmt: skip
FILE = {"contentType": "image/png", "filename": "a.png", "id": "1.png", "size": 3}
IN_GROUP = {"groupId": GROUP, "groupName": "Group", "revision": 1, "type": "DELIVER"}
REACTION = {
    "emoji": "👍", "targetAuthor": NUMBER, "targetAuthorNumber": NUMBER,
    "targetAuthorUuid": ME.id, "targetSentTimestamp": AT - 1, "isRemove": False,
}  # fmt: skip
QUOTE = {
    "id": AT - 1, "author": NUMBER, "authorNumber": NUMBER, "authorUuid": ME.id, "text": "words",
    "attachments": [FILE],
}  # fmt: skip
MENTION = {"name": "Anna", "number": NUMBER, "uuid": ANNA, "start": 0, "length": 1}
OTHERS: dict[str, Any] = {
    "sticker": {"packId": "p", "stickerId": 1},
    "contacts": [{"name": {"given": "Eve", "family": "E"}, "phone": [{"value": "+49"}]}],
    "pollCreate": {"question": "Why?", "options": ["So", "Not"]},
}
DESTINATION = {"destination": NUMBER, "destinationNumber": NUMBER, "destinationUuid": ME.id}


def event(kind: str, message: dict[str, Any], *required: Path, by: str = ANNA) -> Specimen:
    envelope = {
        "source": by, "sourceNumber": None, "sourceUuid": by, "sourceName": "Anna",
        "sourceDevice": 1, "timestamp": AT, "serverReceivedTimestamp": AT,
        "serverDeliveredTimestamp": AT, kind: message,
    }  # fmt: skip
    inside = ((kind,), *((kind, *path) for path in required))
    paths = (("sourceUuid",), ("timestamp",), *inside)
    within = (("envelope",), *(("envelope", *path) for path in paths))
    return Specimen({"account": NUMBER, "envelope": envelope}, within)


SPECIMENS = (
    event("dataMessage", DATA, ("message",)),
    event("dataMessage", {**DATA, "groupInfo": IN_GROUP}, ("groupInfo", "groupId")),
    event("dataMessage", {**DATA, "message": None, "attachments": [FILE]}, ("attachments",)),
    event(
        "dataMessage", {**DATA, "message": None, "reaction": REACTION}, ("reaction",),
        ("reaction", "emoji"), ("reaction", "targetSentTimestamp"),
        ("reaction", "targetAuthorNumber"),
    ),
    event(
        "editMessage", {"targetSentTimestamp": AT - 1, "dataMessage": DATA},
        ("targetSentTimestamp",), ("dataMessage",), ("dataMessage", "message"),
    ),
    event(
        "syncMessage", {"sentMessage": {**DESTINATION, **DATA}}, ("sentMessage",),
        ("sentMessage", "message"), ("sentMessage", "destinationUuid"), by=ME.id,
    ),
    event("dataMessage", {**DATA, "quote": QUOTE}, ("quote", "id")),
    event("dataMessage", {**DATA, "mentions": [MENTION], "groupInfo": IN_GROUP}),
    event("dataMessage", {**DATA, "message": None, "remoteDelete": {"timestamp": AT - 1}}),
    event("dataMessage", {**DATA, "message": None, **OTHERS}),
)  # fmt: skip
RECEIPT = {"when": AT, "isDelivery": True, "isRead": False, "isViewed": False, "timestamps": [AT]}
TO_A_NUMBER = {"destination": "+49", "destinationNumber": "+49", "destinationUuid": None}
IGNORED = (
    event("syncMessage", {"sentMessage": {**TO_A_NUMBER, **DATA}}, by=ME.id).update,
    event("typingMessage", {"action": "STARTED", "timestamp": AT}).update,
    event("receiptMessage", RECEIPT).update,
    {**event("dataMessage", DATA).update, "account": "+4915100000002"},
)
"""What is no message, or one to another user or another account of the daemon."""
UNREADABLE = {
    **event("dataMessage", DATA).update,
    "exception": {"message": "untrusted identity", "type": "UntrustedIdentityException"},
}
"""JsonReceiveMessageHandler.java"""
