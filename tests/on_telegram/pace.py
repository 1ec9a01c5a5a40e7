"""Telegram as it is, but for the second between two messages in one chat."""

from __future__ import annotations

from dataclasses import replace

from segue.platforms.telegram.adapter import CAPABILITIES

QUICK = replace(CAPABILITIES, chat_seconds=0.01)
