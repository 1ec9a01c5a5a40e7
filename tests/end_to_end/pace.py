"""Telegram's capabilities, without the pause of one second between messages in a chat."""

from __future__ import annotations

from dataclasses import replace

from segue.platforms.telegram.adapter import CAPABILITIES

QUICK = replace(CAPABILITIES, chat_seconds=0.01)
