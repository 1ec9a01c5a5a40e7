"""`segue jobs`: makes, lists and changes what the agent does at set times."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from segue import config
from segue.cli import completion
from segue.cli.common import JSON, YES, confirm, pass_json_on, with_store
from segue.core import provenance
from segue.core.address import TARGETS, Delivery
from segue.core.errors import BadDelivery, BadJob, UserError
from segue.core.session import ME
from segue.jobs import service, texts
from segue.jobs.queries import jobs as stored_jobs
from segue.jobs.queries import runs
from segue.jobs.values import (
    DAILY_TOKENS,
    LOCAL,
    AllHomes,
    Condition,
    ConditionKind,
    Job,
    JobAction,
    NewJob,
    Target,
    When,
    parse_targets,
    parse_time,
)
from segue.store import Store, owners
from segue.terminal.output import fields, folded, print_result, screen

_EMPTY = (
    "There are no jobs yet. The agent can do something at a set time, without being asked:\n"
    "\n"
    '  `segue jobs add --cron "0 8 * * 1-5" Summarise the news about my town.`\n'
    "  `segue jobs add --in 20 --verbatim Take the bread out of the oven.`"
)
_HISTORY = 20
_SWITCHES = ("verbatim", "may_change_jobs", "fallback")
_NUMBER = click.argument("number", type=int, shell_complete=completion.jobs)


@click.group(invoke_without_command=True)
@JSON
@click.pass_context
def jobs(ctx: click.Context, *, as_json: bool) -> None:
    """Show or change jobs: what the agent does at set times.

    Without a command, list the jobs.
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        pass_json_on(ctx)


def _list(*, as_json: bool) -> None:
    found = with_store(lambda store: service.list_jobs(store, ME))
    lines = [folded(texts.summary(job, last), screen(), " " * 5) for job, last in found]
    value = [texts.as_json(job, [last] if last else []) for job, last in found]
    print_result(value, lines or [_EMPTY], as_json=as_json)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say when, where and how a job runs."""
    for option in reversed(
        [
            click.option(
                "--in",
                "in_minutes",
                type=float,
                metavar="MINUTES",
                help="Run once, after this number of minutes.",
            ),
            click.option("--at", help="Run once, at this local time: 2026-11-18 09:00, or 09:00."),
            click.option(
                "--every",
                "every_minutes",
                type=float,
                metavar="MINUTES",
                help="Run repeatedly, at this interval.",
            ),
            click.option("--cron", help="Run by cron expression: minute hour day month weekday."),
            click.option(
                "--zone",
                shell_complete=completion.zones,
                help="The time zone of these times, such as Europe/Oslo.",
            ),
            click.option(
                "--deliver",
                shell_complete=completion.targets,
                help="Where it reports: all, local, PLATFORM or PLATFORM:CHAT, or several (a,b).",
            ),
            click.option("--name", help="A short name."),
            click.option("--until", help="The local time after which the job ends."),
            click.option("--runs", type=click.IntRange(min=1), help="The maximum number of runs."),
            click.option("--model", shell_complete=completion.models, help="The model to use."),
            click.option(
                "--verbatim/--ask", default=None, help="Deliver the text itself, or ask the agent."
            ),
            click.option(
                "--only-if-command",
                metavar="COMMAND",
                help="Ask only if the output of a shell command has changed.",
            ),
            click.option(
                "--only-if-page",
                metavar="URL",
                help="Ask only if the text of a page has changed.",
            ),
            click.option(
                "--only-if-file",
                type=click.Path(path_type=Path),
                metavar="PATH",
                help="Ask only if a file or folder has changed, appeared or disappeared.",
            ),
            click.option(
                "--allow",
                multiple=True,
                metavar="WHAT",
                help="A tool, or the start of a command, to use without asking. Repeatable.",
            ),
            click.option(
                "--may-change-jobs/--may-not-change-jobs",
                default=None,
                help="Whether it may make and change jobs. Off by default.",
            ),
            click.option(
                "--fallback/--no-fallback",
                default=None,
                help="Whether reports that cannot be delivered go to your other home channels.",
            ),
            click.option(
                "--daily-tokens",
                type=click.IntRange(min=1),
                help=f"The maximum number of tokens per day. {DAILY_TOKENS:,} by default.",
            ),
        ]
    ):
        command = option(command)
    return command


@jobs.command()
@click.argument("text", nargs=-1, required=True)
@_options
@JSON
def add(text: tuple[str, ...], *, as_json: bool, **given: Any) -> None:
    """Add a job that asks the agent TEXT at a set time."""
    zone = given["zone"] or texts.zone_name(config.load().zone)
    now = datetime.now(UTC)

    async def make(store: Store) -> Job:
        await owners.ensure(store, ME)
        await service.require_gateway(store)
        new = NewJob(
            prompt=" ".join(text),
            schedule=_when(given).schedule(zone, now),
            zone=zone,
            deliver=_targets(given["deliver"]) or await _default(store),
            cwd=str(Path.cwd()),
            provenance=provenance.OWNER,
        )
        return await service.create(store, ME, _with_rest(new, given, now))

    _print(with_store(make), "Added.", as_json=as_json)


@jobs.command()
@_NUMBER
@click.argument("text", nargs=-1)
@_options
@click.option("--always", is_flag=True, help="Remove the condition.")
@click.option("--allow-nothing", is_flag=True, help="Allow nothing without asking.")
@JSON
def edit(number: int, text: tuple[str, ...], *, as_json: bool, **given: Any) -> None:
    """Change job NUMBER. Everything else stays as it is."""
    now = datetime.now(UTC)

    async def change(store: Store) -> tuple[Job, Job]:
        await service.require_gateway(store)
        job = await stored_jobs.found(store, ME, number)
        zone = given["zone"] or job.zone
        when = _when(given)
        schedule = job.schedule if when == When() else when.schedule(zone, now)
        if when == When() and zone != job.zone:
            raise BadJob(reason="a time zone belongs to a time; give both")
        is_rewritten = text and given["name"]
        by = provenance.OWNER if is_rewritten else job.provenance | provenance.OWNER
        changed = replace(
            job,
            prompt=" ".join(text) or job.prompt,
            provenance=by,
            schedule=schedule,
            zone=zone,
            deliver=_targets(given["deliver"]) or job.deliver,
        )
        changed = _with_rest(changed, given, now)
        if given["always"]:
            changed = replace(changed, only_if=None)
        if given["allow_nothing"]:
            changed = replace(changed, allows=())
        return job, await service.edit(store, ME, job, changed)

    former, job = with_store(change)
    _print(job, f"Changed.{texts.no_longer(former, job)}", as_json=as_json)


@jobs.command()
@_NUMBER
@JSON
def show(number: int, *, as_json: bool) -> None:
    """Show job NUMBER and its last runs."""

    async def read(store: Store) -> tuple[Job, Sequence[texts.Last], int]:
        job = await stored_jobs.found(store, ME, number)
        history = await runs.history(store, number, limit=_HISTORY)
        return job, history, await runs.tokens_today(store, job)

    job, history, used = with_store(read)
    lines = fields(texts.facts(job, used), screen())
    lines += [folded(texts.run_line(job, *last), screen(), "    ", "  ") for last in history]
    print_result(texts.as_json(job, history), lines, as_json=as_json)


@jobs.command()
@_NUMBER
@JSON
def pause(number: int, *, as_json: bool) -> None:
    """Pause job NUMBER until it is resumed."""
    _print(_act(number, JobAction.PAUSE), "Paused.", as_json=as_json)


@jobs.command()
@_NUMBER
@JSON
def resume(number: int, *, as_json: bool) -> None:
    """Resume job NUMBER, from its next due time on."""
    _print(_act(number, JobAction.RESUME), "Resumed.", as_json=as_json)


@jobs.command()
@_NUMBER
@JSON
def run(number: int, *, as_json: bool) -> None:
    """Run job NUMBER now, in addition to its set times."""
    job = _act(number, JobAction.RUN)
    line = f"Running. Type `segue jobs show {number}` to see the result."
    print_result(texts.as_json(job), [line], as_json=as_json)


@jobs.command()
@_NUMBER
@YES
@JSON
def delete(number: int, *, yes: bool, as_json: bool) -> None:
    """Delete job NUMBER and its history. Its session stays."""
    job = with_store(lambda store: stored_jobs.found(store, ME, number))
    confirm(f"Delete job {number}, {job.name!r}?", "delete it", yes=yes)
    _act(number, JobAction.DELETE)
    print_result(texts.as_json(job), ["Deleted."], as_json=as_json)


def _act(number: int, action: JobAction) -> Job:
    return with_store(lambda store: service.act(store, ME, number, action))


def _print(job: Job, done: str, *, as_json: bool) -> None:
    lines = [done, *(folded(line, screen()) for line in texts.made(job))]
    print_result(texts.as_json(job), lines, as_json=as_json)


def _when(given: dict[str, Any]) -> When:
    return When(
        in_minutes=given["in_minutes"],
        at=given["at"],
        every_minutes=given["every_minutes"],
        cron=given["cron"],
    )


J = TypeVar("J", bound=NewJob)


def _with_rest(job: J, given: dict[str, Any], now: datetime) -> J:
    """The job with the options that a new one need not have."""
    until = given["until"] and parse_time(given["until"], job.zone, now)
    return replace(
        job,
        name=given["name"] or job.name,
        model=given["model"] or job.model,
        runs=given["runs"] or job.runs,
        until=until or job.until,
        only_if=_condition(given) or job.only_if,
        allows=given["allow"] or job.allows,
        daily_tokens=given["daily_tokens"] or job.daily_tokens,
        **{name: given[name] for name in _SWITCHES if given[name] is not None},
    )


def _condition(given: dict[str, Any]) -> Condition | None:
    if (file := given["only_if_file"]) is not None:
        given["only_if_file"] = file.expanduser().absolute()  # a link may lead elsewhere later
    found = [
        Condition(kind, str(given[f"only_if_{kind}"]))
        for kind in ConditionKind
        if given[f"only_if_{kind}"]
    ]
    if len(found) > 1:
        raise BadJob(reason="it has one condition: a command, a page or a file")
    return found[0] if found else None


def _targets(text: str | None) -> tuple[Target, ...]:
    try:
        found = parse_targets(text) if text else ()
    except BadDelivery as error:  # it names origin too, which a shell does not have
        raise _no_place(str(error.fields["target"])) from error
    if Delivery() in found:
        raise BadJob(reason="origin is the chat where a job is asked for; name a place instead")
    return found


def _no_place(target: str) -> UserError:
    known = ("all", "local", *TARGETS)
    near = difflib.get_close_matches(target.partition(":")[0].casefold(), known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return UserError(
        f"{target!r} is not a place to deliver to.{hint} Use all, local, the name of a platform"
        " with a home channel, or PLATFORM:CHAT."
    )


async def _default(store: Store) -> tuple[Target, ...]:
    """All home channels, or if there is none only the job's session."""
    return (AllHomes(),) if await owners.homes(store, ME) else (LOCAL,)
