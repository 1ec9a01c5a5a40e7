"""The description of Telegram."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import SERVER, TOKEN, PlatformSpec

TELEGRAM = PlatformSpec(
    platform=Platform.TELEGRAM,
    title="Telegram",
    fields=(TOKEN, SERVER),
    guide="""\
1. In Telegram, open a chat with @BotFather and send /newbot. Choose a name for your bot, and a \
username that ends in bot.
2. Press Open in that chat, choose the bot, then Bot Settings, and turn Threaded Mode on: each \
handoff then gets a topic of its own in your chat with the bot.
3. BotFather has answered /newbot with a token such as 123456789:AAF… Copy it, and paste it here.
""",
    extra="telegram",
    libraries=("telegram", "httpx"),
    make="segue.platforms.telegram.adapter:make",
)
