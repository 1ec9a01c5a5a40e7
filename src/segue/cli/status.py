"""`segue status`: shows everything important on one screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click

import segue
import segue.store
from segue import config
from segue.agent.models.choice import Choice, choose
from segue.approvals import queries as approvals
from segue.approvals.queries import Approval
from segue.cli import gateway
from segue.cli.common import JSON, ago
from segue.cli.gateway import GatewayStatus
from segue.cli.sessions import session_json, session_place
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import ModelError
from segue.core.session import ME, Session
from segue.core.text import count, local_time, one_line
from segue.handoffs.values import Failure, Handoff
from segue.jobs import texts
from segue.jobs.queries import jobs, reports
from segue.jobs.values import Job, Report
from segue.store import sessions
from segue.store.gateways import LinkState
from segue.terminal import web_page
from segue.terminal.output import fields, print_result, screen

_LAST = 3
_WHAT_LENGTH = 80
_REPORTS = timedelta(days=7)
_NO_PAGE = "not running; type `segue gateway start` or, in a conversation, /handoff web"
_NO_PAGE_THERE = "not served by the running gateway"
_PAGE_OFF = "disabled (web.enabled is false)"


@click.command()
@JSON
def status(*, as_json: bool) -> None:
    """Show the state of the model, page, sessions, gateway and handoffs."""
    seen = asyncio.run(load_status(config.load()))
    print_result(seen.json(), seen.lines(screen(), datetime.now(UTC)), as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    store: str
    model: Choice | None
    """None if there is no model. `problem` then says why."""
    problem: str
    page: str | None
    """The URL of the page, or None."""
    addresses: Sequence[str]
    """The page's addresses in local networks."""
    page_missing: str
    """The reason why the page is not served."""
    sessions: int
    last: tuple[Session, ...]
    """The last active sessions, newest first."""
    jobs: tuple[Job, ...]
    """Those that are due next."""
    reports: tuple[tuple[Job, Report], ...]
    """Those of the last days that did not arrive, newest first."""
    questions: tuple[Approval, ...]
    """The approvals that wait for an answer, oldest first."""
    gateway: GatewayStatus
    """Only with the handoffs in progress or failed, and the last few failed messages."""
    troubles: int
    unanswered: int
    warnings: Sequence[str]
    """Warnings about the settings."""

    def lines(self, width: int | None, now: datetime) -> list[str]:
        facts = [(name, one_line(text)) for name, text in self._facts(now)]
        head = f"Segue {segue.__version__}"
        return [head, *fields(facts, width), *self.gateway.lines(width, now)]

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        model = f"{self.model.name} ({self.model.why})" if self.model else self.problem
        under_way = sum(handoff.in_flight for handoff in self.gateway.handoffs)
        return [
            ("store", self.store),
            ("model", model),
            ("page", self._page()),
            ("sessions", f"{self.sessions:,}{', the last:' if self.last else ''}"),
            *(("", f"{s.name} ({session_place(s)}, {ago(s.active, now)})") for s in self.last),
            ("handoffs", f"{under_way} in progress" if under_way else "none in progress"),
            *self._jobs(),
            *(("questions" * (n == 0), _question(q)) for n, q in enumerate(self.questions[:_LAST])),
            ("problems", self._troubles(now)),
            *(("warning", warning) for warning in self.warnings),
        ]

    def _jobs(self) -> list[tuple[str, str]]:
        times = [f"{job.name}: {local_time(job.due, job.zone)}" for job in self.jobs if job.due]
        lost = [texts.not_delivered(job, report) for job, report in self.reports[:_LAST]]
        return [
            *(("jobs" * (n == 0), line) for n, line in enumerate(times)),
            *(("reports" * (n == 0), line) for n, line in enumerate(lost)),
        ]

    def _troubles(self, now: datetime) -> str:
        counts = [
            f"{count(number, 'message')} could not be {how}"
            for number, how in ((self.troubles, "delivered"), (self.unanswered, "answered"))
            if number
        ]
        down = [f"{health.platform} is not connected" for health in self.gateway.down]
        paused = [gateway.pause_text(pause, now) for pause in self.gateway.pauses]
        return "; ".join((*counts, *down, *paused)) or "none"

    def _page(self) -> str:
        if self.page is None:
            return self.page_missing
        return f"{self.page}, {web_page.reach_at(self.addresses)}; `segue pair` opens it"

    def json(self) -> dict[str, Any]:
        return {
            "version": segue.__version__,
            "store": self.store,
            "model": self.model and {"name": self.model.name, "why": self.model.why},
            "problem": self.problem,
            "page": self.page,
            "page_addresses": self.addresses,
            "sessions": {
                "count": self.sessions,
                "last": list(map(session_json, self.last)),
            },
            "jobs": list(map(texts.as_json, self.jobs)),
            "reports_not_delivered": [
                {"job": job.id, **texts.report_json(report)} for job, report in self.reports
            ],
            "questions": [
                {
                    "number": asked.id,
                    "session": asked.session_id,
                    "address": asked.address.key,
                    "what": asked.what,
                    "asked": asked.asked,
                }
                for asked in self.questions
            ],
            **self.gateway.json(),
            "warnings": self.warnings,
        }


async def load_status(settings: Settings) -> Status:
    model, problem = await _model(settings)
    async with await segue.store.open(settings.store) as store:
        seen = await gateway.load_status(store, settings.gateway_log)
        return Status(
            store=segue.store.shown(settings.store),
            model=model,
            problem=problem,
            page=web_page.served_url(seen.gateways),
            addresses=await web_page.lan_addresses(store, seen.gateways),
            page_missing=_why_no_page(settings, seen),
            sessions=await sessions.count(store),
            last=tuple(await sessions.list_sessions(store, ME, limit=_LAST)),
            jobs=await jobs.upcoming(store, ME, limit=_LAST),
            reports=await reports.undelivered(store, ME, datetime.now(UTC) - _REPORTS),
            questions=await approvals.list_waiting(store, ME),
            gateway=replace(
                seen,
                handoffs=tuple(handoff for handoff in seen.handoffs if _matters(handoff)),
                troubles=seen.troubles[:_LAST],
                unanswered=seen.unanswered[:_LAST],
            ),
            troubles=len(seen.troubles),
            unanswered=len(seen.unanswered),
            warnings=settings.warnings,
        )


def _question(asked: Approval) -> str:
    what = one_line(asked.what, _WHAT_LENGTH)
    return f"question {asked.id} waits for your answer on {asked.address}: {what}"


def _matters(handoff: Handoff) -> bool:
    """Return whether the handoff is in progress, failed, or was not confirmed."""
    failed = handoff.failure not in (None, Failure.CANCELLED)
    return handoff.in_flight or failed or bool(handoff.warning)


async def _model(settings: Settings) -> tuple[Choice | None, str]:
    try:
        return await choose(settings), ""
    except ModelError as error:
        return None, str(error)


def _why_no_page(settings: Settings, seen: GatewayStatus) -> str:
    if not settings.web.enabled:
        return _PAGE_OFF
    for serving in seen.gateways:
        health = serving.links.get(Platform.WEB)
        if health is not None and health.state is LinkState.DOWN:
            return f"not served: {health.detail}"
    return _NO_PAGE_THERE if seen.gateways else _NO_PAGE
