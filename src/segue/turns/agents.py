"""The built-in brain: an `Agent` per assignment, put together from the settings and the store, with
the tools for the machine and those that need the store.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol

from segue import config
from segue.agent import instructions
from segue.agent.instructions import Projects
from segue.agent.loop import MAX_STEPS, Agent
from segue.agent.models.choice import Models, Pool
from segue.agent.tools import files
from segue.agent.tools.base import Tool, ToolFailed, Workplace
from segue.agent.tools.files import FILES
from segue.agent.tools.memory import remember, search_sessions
from segue.agent.tools.messages import SentFile, send_file, send_message
from segue.agent.tools.shell import shell
from segue.agent.tools.web import FETCH
from segue.approvals.rules import Rules
from segue.config import Settings
from segue.core import provenance
from segue.core.address import Address, ChatType, Delivery, Platform
from segue.core.approval import Policy
from segue.core.context import Context
from segue.core.provenance import Provenance
from segue.core.session import Note, Session
from segue.platforms import registry
from segue.store import Store, gateways, outbox, owners, search, sessions
from segue.store.outbox import Draft
from segue.store.search import Hit
from segue.turns.brain import Assignment

_FOR_SMALL = ("read_file", "list_files", "shell", "remind", "nothing_to_report")
_MAX_CHATS = 1000


class MoreTools(Protocol):
    """Makes tools that a turn gets besides its own, such as those for jobs. `zone` is that of the
    owner. A `small` model gets only a few."""

    def __call__(
        self, store: Store, assignment: Assignment, zone: tzinfo, *, small: bool
    ) -> Sequence[Tool[Any]]: ...


class Agents:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        models: Models | None = None,
        more_tools: MoreTools | None = None,
    ) -> None:
        """`models` replaces those from the settings."""
        self._store = store
        self._settings = settings
        self._pool = Pool(settings)
        self._models = models or self._pool
        self._more_tools = more_tools
        config.hide_secrets()
        self._shell = shell(config.tool_environment())
        self._private = files.private_files(Path.home(), config.private_places(settings))
        self._projects = Projects()

    def reload(self, settings: Settings) -> None:
        """Use new settings for the turns that start from now on."""
        self._settings = settings
        self._pool.reload(settings)

    async def open(self, assignment: Assignment) -> Agent:
        session = assignment.session
        context = assignment.context
        model = await self._models.get(session.model)
        cwd = Path(context.cwd or Path.home())
        approvals = self._settings.approvals
        offered = tools(
            self._store,
            session,
            context,
            self._shell,
            more=self._more(assignment, small=model.small),
            small=model.small,
        )
        rules = Rules(
            policy=approvals.policy_on(context.source.platform),
            allowed_commands=approvals.allowed_commands,
        )
        if (unattended := assignment.unattended) is not None:
            allows = unattended.allows
            rules = Rules(policy=Policy.ALLOW_LIST, allowed_commands=allows, allowed_tools=allows)
        if (only := assignment.only) is not None:
            offered = {name: tool for name, tool in offered.items() if name in only}
            rules = Rules(policy=Policy.AUTO)
        project = await self._projects.read(cwd)
        return Agent(
            model=model,
            system=instructions.system_prompt(
                context=context,
                notes=[note.text for note in assignment.notes],
                project=project,
                today=assignment.now().astimezone().date(),
                small=model.small,
            ),
            place=Workplace(
                cwd=cwd,
                private_network=self._settings.private_network,
                private=files.except_folder(
                    self._private, config.attachments(self._settings, session.id)
                ),
            ),
            background=_background(assignment, project),
            tools=offered,
            rules=rules,
            named="" if unattended is None else unattended.written,
            approve=assignment.approve,
            granted=assignment.granted,
            grant=assignment.grant,
            max_steps=assignment.max_steps or MAX_STEPS,
            now=assignment.now,
        )

    def _more(self, assignment: Assignment, *, small: bool) -> Sequence[Tool[Any]]:
        if self._more_tools is None:
            return ()
        return self._more_tools(self._store, assignment, self._settings.zone, small=small)

    async def model(self, wanted: str | None) -> str:
        return (await self._models.get(wanted)).name

    async def close(self) -> None:
        await self._models.close()


def _background(assignment: Assignment, project: str) -> Provenance:
    """The authors of what the system prompt quotes: notes, the project's file, and the topic of a
    chat with others, unless it is the session's title. The names of chats and people, which are
    short, do not count."""
    context = assignment.context
    by = provenance.union(note.provenance for note in assignment.notes)
    if project:
        by |= provenance.FILE
    is_shared = context.source.chat_type is not ChatType.DM
    if is_shared and context.topic not in ("", assignment.session.title):
        by |= provenance.STRANGER
    return by


# Tools


def tools(
    store: Store,
    session: Session,
    context: Context,
    run: Tool[Any],
    *,
    more: Sequence[Tool[Any]] = (),
    small: bool,
) -> Mapping[str, Tool[Any]]:
    """The tools by name, in the order for the model, with `run`, which runs
    commands, and `more`. A small model gets only a few."""

    async def find(words: str, limit: int) -> Sequence[Hit]:
        return await search.messages(store, session.owner, words, limit=limit, without=session.id)

    async def save(text: str, by: Provenance) -> Note:
        return await owners.add_note(store, session.owner, text, by)

    channels = _Channels(store, session, context)
    every: list[Tool[Any]] = [
        run,
        *FILES,
        FETCH,
        search_sessions(find),
        remember(save),
        send_message(channels),
        send_file(channels),
        *more,
    ]
    named = {tool.name: tool for tool in every}
    return {name: named[name] for name in _FOR_SMALL if name in named} if small else named


class _Channels:
    """Where the agent may send messages: to its owner only."""

    def __init__(self, store: Store, session: Session, context: Context) -> None:
        self._store = store
        self._session = session
        self._context = context

    async def send(self, to: Address, text: str, file: SentFile | None) -> str:
        draft = Draft(
            key=f"sent:{secrets.token_hex(16)}",
            address=to,
            body=text,
            session_id=self._session.id,
            file=None if file is None else str(file.path),
            data=b"" if file is None else file.data,
        )
        await outbox.enqueue(self._store, draft)
        if await gateways.serving(self._store, to.platform) is None:
            return f"It waits for {to}: no gateway is running for {to.platform} now."
        return f"It is on its way to {to}."

    def refusal(self, to: Address, name: str, size: int) -> str:
        rules = registry.SPECS[to.platform].uploads
        return rules.refusal(name, size) if rules else ""

    async def find(self, to: Delivery) -> Address:
        platform = to.platform or self._context.source.platform
        if platform is Platform.LOCAL:
            raise ToolFailed("Your person reads you there already; just say it.")
        if to.platform is None:
            return self._context.source
        homes = [h.address for h in await owners.homes(self._store, self._session.owner)]
        if to.chat_id is None:
            found = next((home for home in homes if home.platform is platform), None)
            why = f"There is no home channel on {platform}."
        else:
            chats = [*homes, *await self._chats(platform)]
            found = next(
                (a for a in chats if (a.platform, a.chat_id) == (platform, to.chat_id)), None
            )
            why = f"{to} is not one of your person's own chats."
        if found is None:
            raise ToolFailed(why)
        return found

    async def _chats(self, platform: Platform) -> list[Address]:
        found = await sessions.list_sessions(
            self._store, self._session.owner, platform=platform, limit=_MAX_CHATS
        )
        return [session.address for session in found if session.address is not None]
