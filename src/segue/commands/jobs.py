"""Commands about jobs: what the agent does at set times."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from segue.commands.base import PREFIX, CommandContext, Where, number
from segue.core import provenance
from segue.core.context import Delivery
from segue.core.errors import BadCommand, NoGatewayForJobs
from segue.core.text import one_line

JOBS_ARGUMENTS = "[NUMBER | pause | resume | run | delete]"
REMIND_ARGUMENTS = "MINUTES | TIME, TEXT"

_RUNS = 5
_REMIND = re.compile(
    r"(?:in )?(?P<minutes>\d{1,6}) ?m?(?:in|inutes?)?,? (?P<in_text>.+)"
    r"|(?:at )?(?P<time>(?:\d{4}-\d\d-\d\d )?\d{1,2}:\d\d),? (?P<at_text>.+)",
    re.DOTALL,
)


# Schedules are imported by the commands themselves: the table must be fast to import.


async def jobs(context: CommandContext, arguments: str) -> None:
    from segue.core import job_text  # noqa: PLC0415
    from segue.store import jobs as stored_jobs  # noqa: PLC0415
    from segue.store import runs  # noqa: PLC0415

    verb, _, rest = arguments.partition(" ")
    if verb.isdecimal():
        verb, rest = "show", verb
    usage = f"jobs {verb} NUMBER"
    match verb:
        case "":
            text = await _listed(context)
        case "show":
            text = await _shown(context, number(rest, "jobs NUMBER"))
        case "pause":
            job = await stored_jobs.pause(context.store, context.owner, number(rest, usage))
            text = f"Paused job {job.id}. Type {PREFIX}jobs resume {job.id} to go on."
        case "resume":
            await _require_gateway(context)
            job = await stored_jobs.resume(context.store, context.owner, number(rest, usage))
            text = "\n".join(job_text.made(job))
        case "run":
            await _require_gateway(context)
            which = number(rest, usage)
            await runs.ask(context.store, context.owner, which)
            text = f"Running. Type {PREFIX}jobs {which} to see the result."
        case "delete":
            which = number(rest, usage)
            await stored_jobs.delete(context.store, context.owner, which)
            text = f"Deleted job {which}."
        case _:
            reason = f"unknown action {one_line(verb, 20)!r}"
            raise BadCommand(usage=f"{PREFIX}jobs {JOBS_ARGUMENTS}", reason=reason)
    await context.notice(text)


async def _listed(context: CommandContext) -> str:
    from segue.core import job_text  # noqa: PLC0415
    from segue.store import jobs as stored_jobs  # noqa: PLC0415
    from segue.store import runs  # noqa: PLC0415

    found = await stored_jobs.list_jobs(context.store, context.owner)
    last = await runs.last(context.store, [job.id for job in found])
    lines = [job_text.summary(job, last.get(job.id)) for job in found]
    return "\n".join(lines) or f"There are no jobs yet. Type {PREFIX}remind 20 Call the bank."


async def _shown(context: CommandContext, which: int) -> str:
    from segue.core import job_text  # noqa: PLC0415
    from segue.store import jobs as stored_jobs  # noqa: PLC0415
    from segue.store import runs  # noqa: PLC0415

    job = await stored_jobs.found(context.store, context.owner, which)
    history = await runs.history(context.store, which, limit=_RUNS)
    used = await runs.tokens_today(context.store, job)
    facts = [f"{name}: {value}" if name else value for name, value in job_text.facts(job, used)]
    return "\n".join([*facts, *(job_text.run_line(job, *last) for last in history)])


async def remind(context: CommandContext, arguments: str) -> None:
    from segue import config  # noqa: PLC0415
    from segue.core import job_text  # noqa: PLC0415
    from segue.core.job import AllHomes, NewJob, When  # noqa: PLC0415
    from segue.store import jobs as stored_jobs  # noqa: PLC0415
    from segue.store import reports  # noqa: PLC0415

    if (said := _REMIND.fullmatch(arguments)) is None:
        usage = f"{PREFIX}remind 20 Call the bank, or {PREFIX}remind 09:00 Call the bank"
        raise BadCommand(usage=usage, reason="it needs minutes or a time, and the text")
    await _require_gateway(context)
    minutes, now = said["minutes"], datetime.now(UTC)
    when = When(in_minutes=int(minutes)) if minutes else When(at=said["time"])
    is_chat = context.where is Where.CHAT
    zone = job_text.zone_name(config.load().zone)
    reminder = NewJob(
        prompt=said["in_text"] or said["at_text"],
        schedule=when.schedule(zone, now),
        zone=zone,
        deliver=(Delivery() if is_chat else AllHomes(),),
        origin=context.place.context.source if is_chat else None,
        verbatim=True,
        provenance=provenance.OWNER,
    )
    await reports.check(context.store, context.owner, reminder.deliver)
    job = await stored_jobs.create(context.store, context.owner, reminder)
    await context.notice("\n".join(job_text.made(job)))


async def _require_gateway(context: CommandContext) -> None:
    from segue.store import gateways  # noqa: PLC0415

    if not await gateways.alive(context.store):
        raise NoGatewayForJobs
