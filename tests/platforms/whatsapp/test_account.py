"""The checks of the setup: the token, the number, and the webhook from outside."""

from __future__ import annotations

from segue.platforms import hub
from segue.platforms.whatsapp.parser import address
from segue.testing.whatsapp import APP_SECRET, Settings
from tests.platforms.whatsapp.rig import WhatsAppRig


async def test_a_webhook_that_was_verified_and_leads_here_is_good(rig: WhatsAppRig):
    await rig.driver.until(lambda shown: shown.verified)
    token, hook = await rig.adapter.examine(None)
    assert (token.ok, hook.ok, hook.awaited) == (True, True, True)
    assert "+1 555-078-3881 (Segue)" in token.text
    assert rig.hook in hook.text


async def test_a_webhook_that_was_not_verified_is_explained_with_its_verify_token(
    rig: WhatsAppRig,
):
    await rig.driver.subscribe(rig.hook, "a wrong token")
    _, hook = await rig.adapter.examine(None)
    assert (hook.ok, hook.vital, hook.awaited) == (False, False, True)
    assert f"the verify token {hub.verify_token(APP_SECRET)}" in hook.fix
    assert "https://YOUR-ADDRESS/hooks/whatsapp" in hook.fix


async def test_a_webhook_that_leads_elsewhere_is_named(rig: WhatsAppRig):
    await rig.driver.until(lambda shown: shown.verified)
    await rig.server.stop()
    _, hook = await rig.adapter.examine(None)
    assert not hook.ok
    assert "does not lead to the gateway" in hook.text


async def test_an_invalid_token_is_vital(rig: WhatsAppRig):
    await rig.driver.settings(Settings(revoked=True))
    (finding,) = await rig.adapter.examine(None)
    assert finding.vital
    assert "access token" in finding.text


async def test_a_chat_is_found_by_its_number(rig: WhatsAppRig):
    found = await rig.adapter.find_chat("+49 1510 0000000")
    assert found is not None
    assert found.address == address("4915100000000")
    assert await rig.adapter.find_chat("@anna") is None
