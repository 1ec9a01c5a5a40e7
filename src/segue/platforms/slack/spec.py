"""The description of Slack, and the manifest of the app that a user creates there."""

from __future__ import annotations

from segue.core.address import Platform
from segue.platforms.spec import SERVER, TOKEN, Field, PlatformSpec

COMMAND = "/segue"
# Lines that fit a narrow terminal: a line break in a string would make it invalid.
MANIFEST = """\
{
 "display_information": {"name": "Segue"},
 "features": {
  "app_home": {
   "messages_tab_enabled": true,
   "messages_tab_read_only_enabled": false
  },
  "assistant_view": {"assistant_description": "Your agent"},
  "bot_user": {"display_name": "segue", "always_online": true},
  "slash_commands": [{
   "command": "/segue",
   "description": "Command your agent",
   "usage_hint": "help"
  }]
 },
 "oauth_config": {"scopes": {"bot": [
  "assistant:write", "channels:history", "channels:read",
  "chat:write", "commands", "files:read", "files:write",
  "groups:history", "groups:read", "im:history", "im:read",
  "mpim:history", "mpim:read", "users:read"
 ]}},
 "settings": {
  "event_subscriptions": {"bot_events": [
   "assistant_thread_started", "member_joined_channel",
   "message.channels", "message.groups",
   "message.im", "message.mpim"
  ]},
  "interactivity": {"is_enabled": true},
  "socket_mode_enabled": true
 }
}
"""

SLACK = PlatformSpec(
    platform=Platform.SLACK,
    title="Slack",
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
    extra="slack",
    make="segue.platforms.slack.adapter:make",
)
