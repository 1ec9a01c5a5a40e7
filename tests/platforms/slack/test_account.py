"""The set-up of the app: its tokens, its scopes, its home channel, and its manifest."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from segue.platforms.base import Finding
from segue.platforms.slack.adapter import HISTORY, NO_TOKEN, SlackAdapter
from segue.platforms.slack.spec import COMMAND, MANIFEST, SLACK
from segue.platforms.slack.updates import address
from tests.fakes.slack import Peer, Settings
from tests.rigs.slack.contract import UNKNOWN_TOKEN, AnnaOnSlack, Shape

DOCUMENT = Path(__file__).parents[3] / "docs" / "slack.md"


async def examined(rig: AnnaOnSlack, home: str | None = None) -> list[Finding]:
    adapter = rig.another()
    found = await adapter.examine(address(home) if home else None)
    await adapter.close()
    return [*found]


async def test_a_good_app_has_no_problems(rig: AnnaOnSlack):
    for shape, name in ((Shape.CHANNEL, "#"), (Shape.DM, "your chat with the app")):
        found = await examined(rig, (await rig.place(shape)).chat)
        assert all(finding.ok for finding in found)
        assert found[0].text.startswith("The bot token is good: the app is @")
        assert name in found[-1].text


async def test_missing_scopes_are_named(rig: AnnaOnSlack):
    few = tuple(it for it in Settings().scopes if it not in ("files:write", "im:history"))
    await rig.driver.settings(Settings(scopes=few))
    _, scopes, *_ = await examined(rig)
    assert scopes.text == "The app lacks scopes: files:write, im:history."
    assert "Reinstall to Workspace" in scopes.fix


async def test_a_bot_token_that_slack_does_not_know_is_asked_for_again(peer: Peer):
    for token in (UNKNOWN_TOKEN, "", "two words"):
        adapter = SlackAdapter(token, peer.app_token, peer.url)
        assert await adapter.examine(None) == [NO_TOKEN]
        await adapter.close()


async def test_an_app_level_token_without_its_scope_is_named(rig: AnnaOnSlack):
    await rig.driver.settings(Settings(app_scopes=()))
    *_, app = await examined(rig)
    assert app.vital
    assert "app-level token" in app.text
    assert "connections:write" in app.fix


async def test_swapped_tokens_are_named(peer: Peer):
    adapter = SlackAdapter(peer.token, peer.token, peer.url)
    *_, app = await adapter.examine(None)
    assert "app-level token" in app.text
    await adapter.close()


@pytest.mark.parametrize("rights", [{"joined": False}, {"archived": True}])
async def test_a_home_channel_where_the_app_cannot_write_is_reported(
    rig: AnnaOnSlack, rights: dict[str, object]
):
    at = await rig.place(Shape.CHANNEL)
    await rig.driver.do("rights", None, user=rig.anna, chat=at.chat, **rights)
    *_, channel = await examined(rig, at.chat)
    assert not channel.ok
    assert await rig.adapter.find_chat(at.chat) is None
    assert not (await examined(rig, "C0999999999"))[-1].ok


async def test_only_users_of_the_workspace_are_found(rig: AnnaOnSlack):
    adapter = rig.another()
    assert await adapter.find_user(rig.anna) is True
    assert await adapter.find_user("U0999999999") is False
    few = tuple(it for it in Settings().scopes if it != "users:read")
    await rig.driver.settings(Settings(scopes=few))
    assert await adapter.find_user("U0999999999") is None


def test_the_manifest_asks_for_what_the_adapter_uses():
    manifest = json.loads(MANIFEST)
    [command] = manifest["features"]["slash_commands"]
    assert command["command"] == COMMAND
    assert manifest["settings"]["socket_mode_enabled"]
    assert manifest["settings"]["interactivity"]["is_enabled"]
    asked = manifest["oauth_config"]["scopes"]["bot"]
    assert asked == sorted(asked)
    assert HISTORY < set(asked) <= set(Settings().scopes)
    assert set(manifest["settings"]["event_subscriptions"]["bot_events"]) <= set(Settings().events)
    assert max(map(len, MANIFEST.splitlines())) < 64
    assert MANIFEST in SLACK.guide


def test_the_document_has_the_manifest_that_the_set_up_prints():
    [shown] = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert shown == MANIFEST


async def test_without_the_scopes_the_readers_are_not_known(rig: AnnaOnSlack):
    home = address((await rig.place(Shape.PRIVATE)).chat)
    few = tuple(it for it in Settings().scopes if it != "groups:read")
    await rig.driver.settings(Settings(scopes=few))
    assert await rig.adapter.audience(home, [rig.anna]) is None
