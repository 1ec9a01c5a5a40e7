"""The built-in brain: an `Agent` per assignment, put together from the settings and the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol

from segue import config
from segue.agent import instructions
from segue.agent.instructions import Projects
from segue.agent.loop import MAX_STEPS, Agent
from segue.agent.models.choice import Models, Pool
from segue.agent.tools import files
from segue.agent.tools.base import Tool, Workplace
from segue.approvals.rules import Rules
from segue.config import Settings
from segue.core import provenance
from segue.core.address import ChatType
from segue.core.approval import Policy
from segue.core.provenance import Provenance
from segue.store import Store
from segue.turns import toolbox
from segue.turns.brain import Assignment


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
        self._environment = config.tool_environment()
        self._private = files.private_files(Path.home(), config.private_places(settings))
        self._projects = Projects()

    def reload(self, settings: Settings) -> None:
        """Use new settings for the turns that start from now on."""
        self._settings = settings
        self._pool.reload(settings)

    async def open(self, assignment: Assignment) -> Agent:
        session, context, only = assignment.session, assignment.context, assignment.only
        model = await self._models.get(session.model)
        cwd = Path(context.cwd or Path.home())
        approvals = self._settings.approvals
        tools = toolbox.tools(
            self._store,
            session,
            context,
            self._environment,
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
        if only is not None:
            tools = {name: tool for name, tool in tools.items() if name in only}
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
            tools=tools,
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
