"""The description of Telegram."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import SERVER, TOKEN, PlatformSpec, UploadRules, UserIds

UPLOADS = UploadRules(most=50 * 1000 * 1000)

TELEGRAM = PlatformSpec(
    platform=Platform.TELEGRAM,
    title="Telegram",
    user_ids=UserIds(r"[1-9][0-9]*", "424242"),
    fields=(TOKEN, SERVER),
    guide="""\
1. In Telegram, open a chat with @BotFather and send /newbot. Choose a name for your bot, and a \
username that ends in bot.
2. Press Open in that chat, choose the bot, then Bot Settings, and turn Threaded Mode on: each \
handoff then gets a topic of its own in your chat with the bot.
3. BotFather has answered /newbot with a token such as 123456789:AAF… Copy it, and paste it here.
""",
    uploads=UPLOADS,
    extra="telegram",
    libraries=("telegram", "httpx"),
    make="segue.platforms.telegram.adapter:make",
)
