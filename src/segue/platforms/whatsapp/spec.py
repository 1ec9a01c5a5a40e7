"""The description of WhatsApp."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import (
    SERVER,
    Field,
    FieldKind,
    PlatformSpec,
    UploadKind,
    UploadRules,
    UserIds,
)

_MEGABYTE = 1024 * 1024
_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS = (
    "text/plain",
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    f"{_OFFICE}wordprocessingml.document",
    f"{_OFFICE}spreadsheetml.sheet",
    f"{_OFFICE}presentationml.presentation",
)
_SOUNDS = ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg")
_TEXTS = ("text/", "application/json", "application/xml", "application/toml", "application/yaml")
UPLOADS = UploadRules(
    most=100 * _MEGABYTE,
    kinds=(
        UploadKind(name="image", most=5 * _MEGABYTE, types=("image/jpeg", "image/png")),
        UploadKind(name="video", most=16 * _MEGABYTE, types=("video/mp4", "video/3gpp")),
        UploadKind(name="audio", most=16 * _MEGABYTE, types=_SOUNDS),
        UploadKind(name="document", most=100 * _MEGABYTE, types=_DOCUMENTS),
        UploadKind(name="document", most=100 * _MEGABYTE, types=_TEXTS, sent_as="text/plain"),
    ),
)

WHATSAPP = PlatformSpec(
    platform=Platform.WHATSAPP,
    title="WhatsApp",
    user_ids=UserIds(r"[0-9]{7,15}", "491510000000001"),
    fields=(
        Field("phone", "Phone number ID", FieldKind.TEXT),
        Field("token", "Access token"),
        Field("app_secret", "App secret"),
        Field("template", "Template for messages after 24 hours", FieldKind.TEXT, required=False),
        Field("port", "Port of the webhook alone", FieldKind.TEXT, required=False),
        SERVER,
    ),
    guide="""\
WhatsApp is experimental: Meta's terms for businesses do not allow general-purpose assistants, so \
Meta can block the number.
1. Open https://developers.facebook.com/apps, press Create App, choose the use case Connect with \
customers through WhatsApp, and a business portfolio.
2. Under WhatsApp, API Setup, copy the Phone number ID. It is not the phone number.
3. Open https://business.facebook.com/settings, System users. Add one with the role Admin, assign \
the app and the WhatsApp account to it with full control, and press Generate token with the \
permissions whatsapp_business_messaging and whatsapp_business_management, without an end.
4. In the app, under App settings, Basic, copy the App secret.
5. You need a public HTTPS address that leads to this machine, from a tunnel or a reverse proxy of \
your own. Forward only /hooks/whatsapp.
""",
    uploads=UPLOADS,
    extra="whatsapp",
    has_groups=False,
    make="segue.platforms.whatsapp.adapter:WhatsAppAdapter",
)
