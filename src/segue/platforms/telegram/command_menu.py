"""The command menu that Telegram shows when a user types /."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from telegram import Bot, BotCommand

from segue.core.text import one_line
from segue.platforms.base import MenuEntry

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_HELP = 256
_MOST = 100


async def offer(bot: Bot, menu: Sequence[MenuEntry]) -> None:
    """Set the menu, if it differs from the current one."""
    wanted = list(_commands(menu))[:_MOST]
    shown = await bot.get_my_commands()
    if _pairs(shown) != _pairs(wanted):
        await bot.set_my_commands(wanted)


def _commands(menu: Sequence[MenuEntry]) -> Iterator[BotCommand]:
    """The commands that Telegram accepts. One bad entry would make it reject the whole menu."""
    for entry in menu:
        name = entry.name.lower()
        if _NAME.fullmatch(name):
            yield BotCommand(name, one_line(entry.help, _HELP) or name)


def _pairs(commands: Sequence[BotCommand]) -> list[tuple[str, str]]:
    return [(command.command, command.description) for command in commands]
