"""Telegram's capabilities, without its pauses between messages and edits in a chat."""

from __future__ import annotations

from dataclasses import replace

from segue.platforms.telegram.adapter import CAPABILITIES

QUICK = replace(CAPABILITIES, chat_seconds=0.01, edit_seconds=0.05)
