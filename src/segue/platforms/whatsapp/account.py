"""The number's account: its setup and its chats."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

from segue.core.address import HomeChannel, Platform
from segue.platforms.base import Finding
from segue.platforms.errors import Lost, Refused
from segue.platforms.whatsapp.client import WhatsAppClient
from segue.platforms.whatsapp.parser import address
from segue.platforms.whatsapp.wire import NumberAnswer

PATH = f"/hooks/{Platform.WHATSAPP}"
NO_TOKEN = Finding(
    False,
    "There is no access token that WhatsApp accepts.",
    "Generate one for a system user at https://business.facebook.com/settings, and type "
    "`segue setup whatsapp`.",
    vital=True,
)
_ENTER = (
    "Let a tunnel or a reverse proxy of your own lead from a public HTTPS address to {local}. "
    "At https://developers.facebook.com/apps, in your app, open WhatsApp, Configuration, and enter "
    "under Webhook the callback URL https://YOUR-ADDRESS{path} and the verify token {token}. Press "
    "Verify and save, and subscribe to the field messages."
)
_SHARED = "the gateway, on the port of the web page (web.port; at first 8790)"
_REACH = "Start the gateway and your tunnel, and let it lead to {local}."
_NUMBER = re.compile(r"\+?([0-9]{7,15})")


async def checks(
    client: WhatsAppClient, verify_token: str, port: int | None
) -> AsyncGenerator[Finding]:
    """Check the token, the number and the webhook. Read-only. `port` is the webhook's own, if it
    has one."""
    local = f"http://127.0.0.1:{port}" if port else _SHARED
    number = await client.number()
    text = f"The token is good: the number is {number.display_phone_number}"
    yield Finding(True, f"{text} ({number.verified_name}).")
    if (url := _callback(number)) is None:
        fix = _ENTER.format(local=local, path=PATH, token=verify_token)
        yield Finding(False, "The webhook has not been verified.", fix, awaited=True)
        return
    challenge = secrets.token_hex(8)
    try:
        asked = {"hub.mode": "subscribe", "hub.verify_token": verify_token}
        answer = await client.probe(url, **asked, **{"hub.challenge": challenge})
    except (Refused, Lost) as error:
        answer, reason = "", f" ({error.reason})"
    else:
        reason = ""
    if answer == challenge:
        yield Finding(True, f"The webhook {url} leads to the gateway.", awaited=True)
    else:
        text = f"The webhook {url} does not lead to the gateway{reason}."
        yield Finding(False, text, _REACH.format(local=local), awaited=True)


def _callback(number: NumberAnswer) -> str | None:
    """The callback URL that Meta has verified, if it is one of ours. The nearest one counts."""
    urls = [
        number.webhook_configuration.get(it)
        for it in ("phone_number", "whatsapp_business_account", "application")
    ]
    url = next(filter(None, urls), "")
    return url if urlsplit(url).path.endswith(PATH) else None


def find(number: str) -> HomeChannel | None:
    """The chat with that phone number. WhatsApp does not say whether there is one."""
    found = _NUMBER.fullmatch(number.replace(" ", ""))
    return found and HomeChannel(address=address(found[1]), name=f"+{found[1]}")
