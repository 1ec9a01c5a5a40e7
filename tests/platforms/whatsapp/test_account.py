"""The checks of the setup: the token, the number, and the webhook from outside."""

from __future__ import annotations

from segue.platforms.whatsapp import webhook
from segue.platforms.whatsapp.updates import address
from tests.fakes.whatsapp import APP_SECRET, Settings
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp


async def test_a_webhook_that_was_verified_must_lead_here(rig: AnnaOnWhatsApp):
    await rig.driver.until(lambda shown: shown.verified)
    token, hook = await rig.adapter.examine(None)
    assert (token.ok, hook.ok, hook.awaited) == (True, True, True)
    assert "+1 555-078-3881 (Segue)" in token.text
    assert rig.hook in hook.text
    await rig.server.stop()
    _, hook = await rig.adapter.examine(None)
    assert (hook.ok, hook.vital, hook.awaited) == (False, False, True)
    assert "does not lead to the gateway (no connection can be made)" in hook.text


async def test_a_webhook_that_was_not_verified_is_explained(rig: AnnaOnWhatsApp):
    await rig.driver.subscribe(rig.hook, "a wrong token")
    _, hook = await rig.adapter.examine(None)
    assert (hook.ok, hook.vital, hook.awaited) == (False, False, True)
    assert f"the verify token {webhook.verify_token(APP_SECRET)}" in hook.fix
    assert "https://YOUR-ADDRESS/hooks/whatsapp" in hook.fix
    await rig.driver.settings(Settings(revoked=True))
    (token,) = await rig.adapter.examine(None)
    assert (token.vital, "access token" in token.text) == (True, True)


async def test_a_chat_is_found_by_its_number(rig: AnnaOnWhatsApp):
    found = await rig.adapter.find_chat("+49 1510 0000000")
    assert found is not None
    assert found.address == address("4915100000000")
    assert await rig.adapter.find_chat("@anna") is None
