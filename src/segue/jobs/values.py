"""Jobs: work that the agent does at a set time, without being spoken to.

A job has at most one run at a time, and one run for each due time:

    waiting ──▶ running     only if its owner asked for it
    running ──▶ reported    it had something to say
       │    ──▶ silent      it had nothing to report
       │    ──▶ failed
       └──▶ running         claimed again: its gateway died

A run that was missed for too long, or for which the job has no tokens left that day, does not
happen: it is `skipped` from the start. A job can have a condition, which needs no model. While the
condition does not hold, a due time leaves no run behind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

from segue.core import provenance
from segue.core.address import Address, Delivery, Platform, parse_delivery
from segue.core.approval import plain_words
from segue.core.errors import BadDelivery, BadJob
from segue.core.provenance import Author, Provenance
from segue.core.text import find_zone, is_empty, local_time, one_line
from segue.jobs.schedule import Cron, Every, Once, Schedule, on_clock, upcoming

MISSED_LIMIT = timedelta(hours=12)
"""A recurring run that is later than this does not happen. Its owner gets a notice."""
MAX_FAILURES = 5
"""A job that fails this often in a row is paused."""
MAX_ATTEMPTS = 3
"""How many gateways may try to finish a run."""
MAX_JOBS = 200
"""How many jobs an owner may have, not counting those that are done."""
DAILY_TOKENS = 1_000_000
"""How many tokens the runs of a job may use in a day, if the job does not say."""
EXCERPT_LIMIT = 4000
"""How many characters a job keeps of what its condition has seen."""
MAX_ALLOWS = 50
LATE = timedelta(minutes=1)
"""A run that starts later than this says so."""
NAME_LIMIT = 60
PROMPT_LIMIT = 8000
_ENTRY_LIMIT = 2000

_ALL = "all"


class JobState(StrEnum):
    ENABLED = "enabled"
    PAUSED = "paused"
    DONE = "done"
    """It has no due time left."""


class JobAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    """Run it now, besides its due times."""
    DELETE = "delete"


class RunState(StrEnum):
    WAITING = "waiting"
    """Its owner asked for it, and no gateway has claimed it yet."""
    RUNNING = "running"
    REPORTED = "reported"
    SILENT = "silent"
    FAILED = "failed"
    SKIPPED = "skipped"


class ConditionKind(StrEnum):
    COMMAND = "command"
    """The output of a shell command has changed."""
    PAGE = "page"
    """The text of a web page has changed."""
    FILE = "file"
    """A file or folder has changed, appeared or vanished."""


_CONDITION_AUTHORS = {
    ConditionKind.COMMAND: Author.COMMAND,
    ConditionKind.PAGE: Author.PAGE,
    ConditionKind.FILE: Author.FILE,
}


class Condition(Struct, frozen=True):
    """What must have changed since the last check for the agent to be asked."""

    kind: ConditionKind
    target: str
    """The command, the URL or the path."""

    @property
    def author(self) -> Author:
        """Who wrote what it sees."""
        return _CONDITION_AUTHORS[self.kind]

    def __str__(self) -> str:
        match self.kind:
            case ConditionKind.COMMAND:
                return f"the output of `{self.target}` has changed"
            case ConditionKind.PAGE:
                return f"the page {self.target} has changed"
            case ConditionKind.FILE:
                return f"{self.target} has changed, appeared or vanished"


class Seen(Struct, frozen=True):
    """What a condition saw."""

    digest: str
    """Two are equal if nothing has changed."""
    excerpt: str


class AllHomes(Struct, frozen=True):
    """Every home channel that the owner has when the job runs."""

    def __str__(self) -> str:
        return _ALL


Target: TypeAlias = Delivery | AllHomes
"""A place to deliver to: `origin`, `local`, `telegram`, `telegram:42` or `all`."""


LOCAL = Delivery(platform=Platform.LOCAL)
"""Only into the job's session."""


def parse_targets(text: str) -> tuple[Target, ...]:
    """Parse targets separated by commas, or raise BadDelivery."""
    parts = [part.strip() for part in text.split(",")]
    found = dict.fromkeys(
        AllHomes() if part.lower() == _ALL else parse_delivery(part) for part in parts if part
    )
    if not found:
        raise BadDelivery(target=text)
    return tuple(found)


def targets_text(targets: Sequence[Target]) -> str:
    """The targets as `parse_targets` reads them."""
    return ", ".join(map(str, targets))


class NewJob(Struct, frozen=True, kw_only=True):
    """A job as it is asked for."""

    prompt: str
    schedule: Schedule
    zone: str
    """The IANA zone in which its times are shown. That of a Cron, for a Cron."""
    deliver: tuple[Target, ...]
    name: str = ""
    verbatim: bool = False
    """Whether the prompt is delivered as it is, without asking the agent."""
    origin: Address | None = None
    """Where it was asked for. None for the terminal."""
    cwd: str | None = None
    model: str | None = None
    until: datetime | None = None
    """No run is due after this time."""
    runs: int | None = None
    """How many runs are left. None for no limit."""
    only_if: Condition | None = None
    """Ask the agent only if this has changed."""
    allows: tuple[str, ...] = ()
    """What its runs may do without asking: names of tools, and commands that begin with these
    words. Nothing else does, even if the settings or the session allow it."""
    may_change_jobs: bool = False
    """Whether its runs may make and change jobs. Only its owner sets this."""
    fallback: bool = False
    """Whether a report that cannot be delivered goes to the owner's other home channels."""
    daily_tokens: int | None = None
    """How many tokens its runs may use in a day of its zone. None for DAILY_TOKENS."""
    provenance: Provenance = provenance.UNKNOWN
    """The authors of its name and prompt."""

    @property
    def is_text(self) -> bool:
        """Whether it delivers a text as it is, and checks nothing."""
        return self.verbatim and self.only_if is None

    @property
    def written(self) -> str:
        """What its owner wrote: the prompt, and what its condition checks."""
        return f"{self.prompt}\n{self.only_if.target}" if self.only_if else self.prompt

    @property
    def token_limit(self) -> int:
        return DAILY_TOKENS if self.daily_tokens is None else self.daily_tokens

    def check(self) -> None:
        """Raise BadJob if a value makes no sense."""
        if is_empty(self.prompt):
            raise BadJob(reason="it does not say what to do")
        if len(self.prompt) > PROMPT_LIMIT:
            raise BadJob(reason=f"what it says is longer than {PROMPT_LIMIT} characters")
        if self.daily_tokens is not None and self.daily_tokens < 1:
            raise BadJob(reason="a day has at least one token")
        if self.only_if is not None:
            _check_condition(self.only_if)
        if len(self.allows) > MAX_ALLOWS:
            raise BadJob(reason=f"it allows more than {MAX_ALLOWS} things")
        for entry in self.allows:
            if not plain_words(entry) or len(entry) > _ENTRY_LIMIT:
                reason = f"{one_line(entry, 60)!r} is neither a tool nor the start of a command"
                raise BadJob(reason=f"{reason} without shell syntax, so it would allow nothing")


class Job(NewJob, frozen=True, kw_only=True):
    """Work to do at set times, for one owner."""

    id: int
    owner: str
    state: JobState
    due: datetime | None
    """The next due time. None if the job is paused or done."""
    created: datetime
    session_id: str | None = None
    """The session of its runs. None before the first one."""
    failures: int = 0
    """How many of its last runs failed in a row."""
    error: str | None = None
    """Why it was paused, if its owner did not do it."""
    seen: Seen | None = None
    """What its condition saw when the agent was last asked, or at the first check."""
    checked: datetime | None = None
    """When its condition was last checked."""
    checks: int = 0
    """How often its condition was checked."""

    @property
    def is_reminder(self) -> bool:
        return isinstance(self.schedule, Once)


class Run(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    id: int
    job_id: int
    due: datetime
    state: RunState
    started: datetime
    missed_since: datetime | None = None
    """The first due time that this run stands for, if several were missed."""
    seq: int | None = None
    """The number of its prompt in the job's session. None before the agent was asked."""
    attempt: int = 0
    fence: int = 0
    """Counts the claims. Only the newest claim may finish the run."""
    claimed_by: str | None = None
    finished: datetime | None = None
    error: str | None = None
    """Why it failed or was skipped."""
    asked: bool = False
    """Whether its owner asked for it. It then runs even if its condition has not changed."""
    seen: Seen | None = None
    """What the job's condition saw. None before it was checked."""
    tokens: int = 0
    """How many tokens it has used. Known when it has ended."""

    @property
    def is_late(self) -> bool:
        return self.started - self.due > LATE


def as_asked(job: NewJob) -> NewJob:
    """What was asked for, without what runs have changed since, and without who asked."""
    names = (name for name in NewJob.__struct_fields__ if name not in ("runs", "provenance"))
    return NewJob(**{name: getattr(job, name) for name in names})


class ReportState(StrEnum):
    WAITING = "waiting"
    """The conversation at its address is in use."""
    KEPT = "kept"
    """It is only in the job's session."""
    QUEUED = "queued"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    FAILED = "failed"


class Report(Struct, frozen=True, kw_only=True):
    """What a run says at one place, and whether it arrived."""

    no: int
    run_id: int
    target: str
    address: Address | None
    body: str
    state: ReportState
    made: datetime
    error: str | None = None
    """Why it did not arrive."""
    instead_of: int | None = None
    """The number of the report that did not arrive, and for which this one stands in."""


class RunNow(Struct, frozen=True):
    """Run once, for this due time. Earlier ones since `missed_since` are left out."""

    due: datetime
    missed_since: datetime | None = None


class Skip(Struct, frozen=True):
    """Do not run. Notify the owner that the due times from `missed_since` to `due` were missed."""

    due: datetime
    missed_since: datetime


def catch_up(
    schedule: Schedule,
    due: datetime,
    now: datetime,
    *,
    until: datetime | None = None,
    limit: timedelta = MISSED_LIMIT,
) -> RunNow | Skip:
    """Decide what happens at `now` about a job whose next due time was `due`, which is over. No
    time after `until` is due.

    However many times were missed, there is one run or one notice. A job that is due once always
    runs: a late reminder is better than none.
    """
    last = latest(schedule, due, now if until is None else min(now, until))
    missed = due if last > due else None
    if isinstance(schedule, Once) or now - last <= limit:
        return RunNow(last, missed)
    return Skip(last, due)


def latest(schedule: Schedule, due: datetime, now: datetime) -> datetime:
    """The last due time that is not later than `now`, given a due time that is not."""
    match schedule:
        case Once():
            return due
        case Every(interval):
            return due + (now - due) // interval * interval
        case Cron():
            # Look back further and further: after a year away, not every minute of it.
            span = timedelta(minutes=1)
            while now - span > due:
                if found := _until(schedule, now - span, now):
                    return found[-1]
                span *= 2
            return [due, *_until(schedule, due, now)][-1]


def _until(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda due: due <= end, upcoming(schedule, start)))


def next_due(job: NewJob, moment: datetime) -> datetime | None:
    """The job's first due time after `moment`, or None if it is done by then."""
    due = job.schedule.after(moment)
    if due is None or job.runs == 0 or (job.until is not None and due > job.until):
        return None
    return due


def next_times(job: NewJob, first: datetime | None, number: int = 3) -> list[datetime]:
    """The due times of a job from `first` on, for display. None for a job that is not due."""
    if first is None:
        return []
    later = upcoming(job.schedule, first)
    most = number if job.runs is None else min(number, job.runs)
    times = [first, *(due for due, _ in zip(later, range(most - 1), strict=False))]
    return [due for due in times if job.until is None or due <= job.until]


def day(moment: datetime, zone: str) -> tuple[datetime, datetime]:
    """The start of the day of `moment` on the wall clock of a zone, and of the next day."""
    place = find_zone(zone) or UTC
    midnight = datetime.combine(moment.astimezone(place), time())
    return on_clock(midnight, place), on_clock(midnight + timedelta(days=1), place)


class When(Struct, frozen=True, kw_only=True):
    """When a job is due, as users and the agent say it: exactly one of the four."""

    in_minutes: float | None = None
    at: str | None = None
    """A local time: `2026-11-18 09:00`, or `09:00` for the next one."""
    every_minutes: float | None = None
    cron: str | None = None

    def schedule(self, zone: str, now: datetime) -> Schedule:
        """The schedule, counted from `now`. Raise BadJob if it makes no sense."""
        given = [self.in_minutes, self.at, self.every_minutes, self.cron]
        if sum(value is not None for value in given) != 1:
            raise BadJob(reason="give exactly one of: in minutes, at a time, every minutes, cron")
        if (place := find_zone(zone)) is None:
            reason = f"there is no time zone {zone!r}; one is called Europe/Oslo, for example"
            raise BadJob(reason=reason)
        try:
            if self.in_minutes is not None:
                return Once(now + timedelta(minutes=self.in_minutes))
            if self.at is not None:
                return Once(_local_moment(self.at, place, now))
            if self.every_minutes is not None:
                return Every(timedelta(minutes=self.every_minutes), now)
            return Cron(self.cron or "", place)
        except (ValueError, OverflowError) as error:
            raise BadJob(reason=str(error)) from error


def parse_time(text: str, zone: str, now: datetime) -> datetime:
    """The moment that a local time names. Raise BadJob."""
    schedule = When(at=text).schedule(zone, now)
    return schedule.at if isinstance(schedule, Once) else now


def _local_moment(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    text = text.strip()
    if re.fullmatch(r"[0-2]?[0-9]:[0-5][0-9]", text):
        hour, minute = map(int, text.split(":"))
        return next(upcoming(Cron(f"{minute} {hour} * * *", zone), now))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write 2026-11-18 09:00, or 09:00 for the next one"
        ) from None
    return moment.astimezone(UTC) if moment.tzinfo else on_clock(moment, zone)


def schedule_text(schedule: Schedule, zone: str) -> str:
    """The schedule in words."""
    match schedule:
        case Once(at):
            return f"once, {local_time(at, zone)}"
        case Every(interval):
            minutes = interval // timedelta(minutes=1)
            return f"every {minutes} minutes" if minutes != 1 else "every minute"
        case Cron(expression):
            return f"cron {expression} ({zone})"


def _check_condition(condition: Condition) -> None:
    target = condition.target
    if is_empty(target) or len(target) > _ENTRY_LIMIT or "\0" in target:
        raise BadJob(reason=f"its {condition.kind} must have 1 to {_ENTRY_LIMIT} characters")
    if condition.kind is ConditionKind.PAGE and not target.startswith(("http://", "https://")):
        raise BadJob(reason="a page begins with http:// or https://")
