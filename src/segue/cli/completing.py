"""Shell completions. They use local data only, never the network.

Errors yield no completions: pressing Tab must not report a broken store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from segue.core.errors import SegueError
from segue.core.session import ME
from segue.core.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SESSIONS = 500
_SECONDS = 2.0
_LATEST = "latest"


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete session titles, and ids where there is no title. Any id also completes."""
    names: list[str] = []
    ids: list[str] = []
    try:
        for session_id, title in _known():
            names.append(one_line(title) if title else session_id)
            ids.append(session_id)
    except (SegueError, TimeoutError):
        return []
    return _fitting(incomplete, [*names, _LATEST]) or _fitting(incomplete, ids)


def _known() -> list[tuple[str, str | None]]:
    import asyncio  # noqa: PLC0415

    from segue.cli.store_access import with_store  # noqa: PLC0415
    from segue.store import Store  # noqa: PLC0415

    async def known(store: Store) -> list[tuple[str, str | None]]:
        async with asyncio.timeout(_SECONDS):
            return [(s.id, s.title) for s in await store.sessions.list(ME, limit=_SESSIONS)]

    return with_store(known)


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete setting names, including those of endpoints in the settings file."""
    from segue import config  # noqa: PLC0415

    return _fitting(incomplete, config.names.every(_endpoints()))


def values(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete values of the setting named before, where the values are known."""
    from segue import config  # noqa: PLC0415

    name = ctx.params.get("name") or ""
    if name == "model":
        return models(ctx, param, incomplete)
    try:
        return _fitting(incomplete, config.names.choices(name))
    except SegueError:
        return []


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete model names: each provider's default, the embedded model, and other services."""
    from segue.agent.models.catalog import LOCAL, PROVIDERS, SCRIPTED  # noqa: PLC0415

    usual = {p.name: f"{p.name}/{p.default}" for p in PROVIDERS.values() if p.default}
    named = [usual.get(name, f"{name}/") for name in _services()]
    return _fitting(incomplete, [LOCAL, *named, SCRIPTED])


def providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the services that can list their models."""
    from segue.agent.models.catalog import LOCAL  # noqa: PLC0415

    return _fitting(incomplete, [*_services(), LOCAL])


def _services() -> list[str]:
    from segue.agent.models.catalog import PROVIDERS, SERVERS  # noqa: PLC0415

    return list(dict.fromkeys([*_endpoints(), *PROVIDERS, *(server.name for server in SERVERS)]))


def _endpoints() -> list[str]:
    from segue import config  # noqa: PLC0415

    try:
        return list(config.load().endpoints)
    except SegueError:
        return []


def _fitting(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return the names that start with `incomplete`. If there are none, ignore case."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for Tab

    # Not both at once: if candidates differ in case, a shell removes typed letters.
    known = list(names)
    exact = [name for name in known if name.startswith(incomplete)]
    wanted = incomplete.casefold()
    found = exact or [name for name in known if name.casefold().startswith(wanted)]
    return [CompletionItem(name) for name in found]
