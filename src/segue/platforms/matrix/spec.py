"""The description of Matrix."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import Field, FieldKind, PlatformSpec, SignIn, UploadRules, UserIds

VERIFIED = "verified"
FIRST_USE = "first-use"
"""Which devices get the keys of encrypted rooms: those that the owner has verified, or each device
from the first time that it is seen."""

UPLOADS = UploadRules(most=50 * 1024 * 1024)

MATRIX = PlatformSpec(
    platform=Platform.MATRIX,
    title="Matrix",
    user_ids=UserIds(r"@[^\s:]+:\S+", "@anna:example.org"),
    fields=(
        Field("url", "Homeserver, such as https://matrix.org", FieldKind.URL),
        Field("invites_from", "Your own user id, such as @anna:matrix.org", FieldKind.TEXT),
        Field("token", "Access token"),
        Field("trust", f"Trusted devices, {VERIFIED} or {FIRST_USE}", FieldKind.TEXT, False),
    ),
    sign_in=SignIn(
        fields=(
            Field("user", "User name of the bot", FieldKind.TEXT),
            Field("password", "Password of the bot"),
        ),
        gives="token",
        make="segue.platforms.matrix.account:sign_in",
    ),
    guide="""\
1. Register a second account on your homeserver, for the bot. On most servers you do that in a \
client such as Element: sign out, or use a private window, and choose Create account.
2. The bot accepts invitations from you only, so it needs your own user id: @name:server.
3. The password is used once, to sign the bot in. It is not kept.
""",
    uploads=UPLOADS,
    extra="matrix",
    libraries=("nio", "vodozemac", "peewee"),
    from_source=("atomicwrites",),
    make="segue.platforms.matrix.adapter:make",
)
