"""The number's account: its setup and its chats."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from functools import partial
from urllib.parse import urlsplit

from segue.core.address import HomeChannel, Platform
from segue.platforms import hub
from segue.platforms.base import Finding
from segue.platforms.whatsapp.client import WhatsAppClient
from segue.platforms.whatsapp.parser import address

_PATH = f"/hooks/{Platform.WHATSAPP}"
NO_TOKEN = Finding(
    False,
    "WhatsApp does not accept the access token.",
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
_NEAREST = ("phone_number", "whatsapp_business_account", "application")
"""Where Meta keeps callback URLs. The first that is set counts."""
_NUMBER = re.compile(r"\+?([0-9]{7,15})")


async def checks(
    client: WhatsAppClient, app_secret: str, port: int | None
) -> AsyncGenerator[Finding]:
    """Check the token, the number and the webhook. Read-only. `port` is the webhook's own, if it
    has one."""
    local = f"http://127.0.0.1:{port}" if port else _SHARED
    number = await client.number()
    text = f"The token is good: the number is {number.display_phone_number}"
    yield Finding(True, f"{text} ({number.verified_name}).")
    url = next(filter(None, map(number.webhook_configuration.get, _NEAREST)), "")
    if not urlsplit(url).path.endswith(_PATH):
        fix = _ENTER.format(local=local, path=_PATH, token=hub.verify_token(app_secret))
        yield Finding(False, "The webhook has not been verified.", fix, awaited=True)
    elif (flaw := await hub.flaw(partial(client.probe, url), app_secret)) is None:
        yield Finding(True, f"The webhook {url} leads to the gateway.", awaited=True)
    else:
        text = f"The webhook {url} does not lead to the gateway{flaw and f' ({flaw})'}."
        fix = f"Start the gateway and your tunnel, and let it lead to {local}."
        yield Finding(False, text, fix, awaited=True)


def find(number: str) -> HomeChannel | None:
    """The chat with that phone number. WhatsApp does not say whether there is one."""
    found = _NUMBER.fullmatch(number.replace(" ", ""))
    return found and HomeChannel(address=address(found[1]), name=f"+{found[1]}")
