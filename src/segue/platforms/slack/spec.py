"""The description of Slack, and the manifest of the app that a user creates there."""

from __future__ import annotations

from pathlib import Path

from segue.core.address import Platform
from segue.platforms.spec import SERVER, TOKEN, Field, PlatformSpec, UploadRules, UserIds

COMMAND = "/segue"
# Its lines fit a narrow terminal: a line break in a string would make it invalid.
MANIFEST = Path(__file__).with_name("manifest.json").read_text(encoding="utf-8")

UPLOADS = UploadRules(most=100 * 1024 * 1024)

SLACK = PlatformSpec(
    platform=Platform.SLACK,
    title="Slack",
    user_ids=UserIds(r"[UW][A-Z0-9]+", "U0123456789"),
    fields=(TOKEN, Field("app_token", "App-level token"), SERVER),
    guide=f"""\
1. Open https://api.slack.com/apps, press Create New App and From a manifest, choose your \
workspace, and replace what is under JSON with this:
{MANIFEST}\
2. Press Create, then Install to Workspace. Under OAuth & Permissions, copy the Bot User OAuth \
Token, xoxb-…
3. Under Basic Information, App-Level Tokens, press Generate Token and Scopes, add the scope \
connections:write, and copy that token, xapp-…
""",
    uploads=UPLOADS,
    extra="slack",
    make="segue.platforms.slack.adapter:make",
)
