"""Commands about jobs: what the agent does at set times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from segue.commands.base import PREFIX, CommandContext, Where, bad_command, number
from segue.core import provenance
from segue.core.address import Delivery
from segue.core.text import one_line

if TYPE_CHECKING:
    from segue.jobs.values import Job, JobAction
    from segue.store import Store

JOBS_ARGUMENTS = "[NUMBER | pause | resume | run | delete]"
REMIND_ARGUMENTS = "MINUTES|TIME TEXT"

_RUNS = 5
_REMIND = re.compile(
    r"(?:in )?(?P<minutes>\d{1,6}) ?m?(?:in|inutes?)?,? (?P<in_text>.+)"
    r"|(?:at )?(?P<time>(?:\d{4}-\d\d-\d\d )?\d{1,2}:\d\d),? (?P<at_text>.+)",
    re.DOTALL,
)


# Schedules are imported by the commands themselves: the table must be fast to import.


async def jobs(context: CommandContext, arguments: str) -> None:
    from segue.jobs import service, texts  # noqa: PLC0415
    from segue.jobs.values import JobAction  # noqa: PLC0415

    store = context.store
    owner = context.owner
    verb, _, rest = arguments.partition(" ")
    if verb.isdecimal():
        rest = verb
        verb = "show"
    if verb == "":
        lines = [texts.summary(job, last) for job, last in await service.list_jobs(store, owner)]
        text = "\n".join(lines) or f"There are no jobs yet. Type {PREFIX}remind 20 Call the bank."
    elif verb == "show":
        text = await _shown(store, owner, number(rest, "jobs NUMBER"))
    elif verb in set(JobAction):
        which = number(rest, f"jobs {verb} NUMBER")
        action = JobAction(verb)
        text = _done(action, await service.act(store, owner, which, action))
    else:
        reason = f"unknown action {one_line(verb, 20)!r}"
        raise bad_command(f"{PREFIX}jobs {JOBS_ARGUMENTS}", reason)
    await context.notice(text)


async def _shown(store: Store, owner: str, which: int) -> str:
    from segue.jobs import texts  # noqa: PLC0415
    from segue.jobs.queries import jobs, runs  # noqa: PLC0415

    job = await jobs.found(store, owner, which)
    history = await runs.history(store, which, limit=_RUNS)
    used = await runs.tokens_today(store, job)
    facts = [f"{name}: {value}" if name else value for name, value in texts.facts(job, used)]
    return "\n".join([*facts, *(texts.run_line(job, *last) for last in history)])


def _done(action: JobAction, job: Job) -> str:
    from segue.jobs import texts  # noqa: PLC0415
    from segue.jobs.values import JobAction  # noqa: PLC0415

    match action:
        case JobAction.PAUSE:
            return f"Paused job {job.id}. Type {PREFIX}jobs resume {job.id} to go on."
        case JobAction.RESUME:
            return "\n".join(texts.made(job))
        case JobAction.RUN:
            return f"Running. Type {PREFIX}jobs {job.id} to see the result."
        case JobAction.DELETE:
            return f"Deleted job {job.id}."


async def remind(context: CommandContext, arguments: str) -> None:
    from segue.jobs import service, texts  # noqa: PLC0415
    from segue.jobs.values import AllHomes, NewJob, When  # noqa: PLC0415

    if (said := _REMIND.fullmatch(arguments)) is None:
        usage = f"{PREFIX}remind 20 Call the bank, or {PREFIX}remind 09:00 Call the bank"
        raise bad_command(usage, "it needs minutes or a time, and the text")
    await service.require_gateway(context.store)
    minutes = said["minutes"]
    now = datetime.now(UTC)
    when = When(in_minutes=int(minutes)) if minutes else When(at=said["time"])
    is_chat = context.where is Where.CHAT
    zone = texts.zone_name(context.zone)
    reminder = NewJob(
        prompt=said["in_text"] or said["at_text"],
        schedule=when.schedule(zone, now),
        zone=zone,
        deliver=(Delivery() if is_chat else AllHomes(),),
        origin=context.place.context.source if is_chat else None,
        verbatim=True,
        provenance=provenance.OWNER,
    )
    job = await service.create(context.store, context.owner, reminder)
    await context.notice("\n".join(texts.made(job)))
