"""The description of Signal."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import Field, FieldKind, PlatformSpec, UploadRules, UserIds

URL = "http://127.0.0.1:8080"
OLDEST = (0, 13)
COMMAND = "signal-cli daemon --http 127.0.0.1:8080 --receive-mode on-connection --no-receive-stdout"
GET = (
    "Install signal-cli: https://github.com/AsamK/signal-cli/wiki/Quickstart (a native build needs"
    " no Java), or your package manager."
)

UPLOADS = UploadRules(most=50 * 1024 * 1024)

SIGNAL = PlatformSpec(
    platform=Platform.SIGNAL,
    title="Signal",
    user_ids=UserIds(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "11111111-0000-4000-8000-000000000001"
    ),
    fields=(
        Field("account", "Phone number of the account, +…", FieldKind.TEXT, required=False),
        Field("url", "Address of the signal-cli daemon", FieldKind.URL, required=False),
    ),
    uploads=UPLOADS,
    extra="signal",
    make="segue.platforms.signal.adapter:make",
    prepare="segue.platforms.signal.setup:prepare",
    send_to="Note to Self, or from another phone to the account",
)
