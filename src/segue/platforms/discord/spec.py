"""The description of Discord."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import SERVER, TOKEN, PlatformSpec, UploadRules, UserIds

UPLOADS = UploadRules(most=10 * 1024 * 1024)

DISCORD = PlatformSpec(
    platform=Platform.DISCORD,
    title="Discord",
    user_ids=UserIds(r"[1-9][0-9]*", "1200000000000000009"),
    fields=(TOKEN, SERVER),
    guide="""\
1. Open https://discord.com/developers/applications and press New Application. Choose a name for \
your bot.
2. Open Bot in the menu on the left, and turn Message Content Intent on. Without it the bot cannot \
read what you write.
3. On the same page, press Reset Token. Copy the token, and paste it here.
""",
    uploads=UPLOADS,
    extra="discord",
    libraries=("discord", "aiohttp"),
    make="segue.platforms.discord.adapter:make",
)
