"""`segue jobs`: jobs made, seen and changed from the command line."""

from __future__ import annotations

import asyncio
import zoneinfo
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import segue.store
from segue.core import provenance
from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.provenance import Provenance
from segue.core.session import ME
from segue.jobs.queries import jobs, reports, runs
from segue.jobs.values import Seen
from segue.store import Store, gateways, owners
from tests.harness.command_line import Command

CHAT = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/segue.db"


@pytest.fixture
def command(url: str) -> Command:
    return Command("jobs", {"SEGUE_STORE": url, "TZ": "Europe/Oslo"})


@pytest.fixture
def gateway(url: str, runner: asyncio.Runner) -> Generator[Store]:
    """A gateway that is present, and never claims anything."""

    async def begin() -> Store:
        store = await segue.store.open(url)
        await owners.ensure(store, ME)
        await gateways.announce(store, "a gateway", [], seconds=3600)
        return store

    store = runner.run(begin())
    yield store
    runner.run(store.close())


def decoded(line: str) -> Any:
    assert line.count("\n") == 1
    return msgspec.json.decode(line)


def test_without_jobs_it_says_how_to_add_one(command: Command):
    assert "There are no jobs yet." in command()
    assert decoded(command("--json")) == []


def test_a_job_is_refused_when_no_gateway_could_run_it(command: Command):
    told = command.refused("add", "--in", "20", "Take the bread out.")
    assert "No gateway is running" in told
    assert "segue gateway start" in told
    assert decoded(command("--json")) == []


@pytest.mark.usefixtures("gateway")
def test_a_new_job_repeats_its_next_times_in_words(command: Command):
    told = command("add", "--cron", "0 8 * * 1-5", "--deliver", "local", "Read the news.")
    assert told.startswith(
        "Added.\nJob 1, 'Read the news.': cron 0 8 * * 1-5 (Europe/Oslo).\nNext: "
    )
    assert told.count(" 08:00 (Europe/Oslo)") == 3
    assert "It delivers to: its own session." in told
    assert "  1  Read the news.; next " in command()


def test_a_reminder_is_due_once(command: Command, gateway: Store, runner: asyncio.Runner):
    runner.run(owners.set_home(gateway, ME, HomeChannel(address=CHAT)))
    command("add", "--in", "20", "--verbatim", "Take the bread out.")
    (job,) = decoded(command("--json"))
    (due,) = job["next"]
    left = datetime.fromisoformat(due) - datetime.now(UTC)
    assert timedelta(minutes=19) < left <= timedelta(minutes=20)
    assert (job["verbatim"], job["deliver"], job["prompt"]) == (
        True,
        ["all"],
        "Take the bread out.",
    )


def test_reports_go_to_the_home_channels_by_default(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    runner.run(owners.set_home(gateway, ME, HomeChannel(address=CHAT)))
    assert "It delivers to: all your home channels." in command("add", "--every", "60", "Look.")


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("Look.",), "exactly one of"),
        (("--in", "5", "--at", "09:00", "Look."), "exactly one of"),
        (("--cron", "daily", "Look."), "five fields"),
        (("--every", "0.1", "Look."), "from 1 minute"),
        (("--at", "soon", "Look."), "not a time"),
        (("--at", "2020-01-01 09:00", "Look."), "its time is over"),
        (("--in", "5", "--zone", "Mars/Base", "Look."), "no time zone"),
        (("--in", "5", "--deliver", "telegram", "Look."), "No home channel on telegram"),
        (("--in", "5", "--deliver", "telegram:7", "Look."), "not one of your chats"),
        (("--in", "5", "--deliver", "origin", "Look."), "origin is the chat"),
        (
            ("--in", "5", "--deliver", "everyone", "Look."),
            "not a place to deliver to. Use all, local, the name of a platform",
        ),
        (("--in", "5", "--deliver", "telegrm", "Look."), "Did you mean telegram?"),
        (("--in", "5", "--verbatim", "Look."), "no one would see that text"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(
    command: Command, given: tuple[str, ...], reason: str
):
    assert reason in command.refused("add", *given)
    assert decoded(command("--json")) == []


@pytest.mark.usefixtures("gateway")
def test_a_job_is_changed_paused_resumed_and_deleted(command: Command):
    command("add", "--every", "60", "--name", "look", "Look.")
    told = command("edit", "1", "--cron", "30 9 * * *", "Look", "closely.")
    assert "Job 1, 'look': cron 30 9 * * * (Europe/Oslo)." in told
    assert decoded(command("show", "1", "--json"))["prompt"] == "Look closely."
    assert command("pause", "1").startswith("Paused.")
    assert "look; paused; to its own session" in command()
    assert command("resume", "1").startswith("Resumed.")
    assert decoded(command("show", "1", "--json"))["state"] == "enabled"
    assert "No terminal to ask on." in command.refused("delete", "1")
    assert command("delete", "1", "--yes") == "Deleted.\n"
    assert "There is no job 1." in command.refused("show", "1")


@pytest.mark.usefixtures("gateway")
def test_an_edit_that_makes_a_recurring_job_run_once_says_so(command: Command):
    command("add", "--cron", "0 9 * * 1-5", "Look.")
    told = command("edit", "1", "--in", "20")
    was = "It was cron 0 9 * * 1-5 (Europe/Oslo), and now runs only once."
    assert told.startswith(f"Changed. {was}\n")
    assert "only once" not in command("edit", "1", "--in", "30")
    assert "only once" not in command("edit", "1", "--every", "60")


def test_a_run_and_what_became_of_it_are_shown(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    async def carry_out() -> None:
        claim = await runs.claim(gateway)
        assert claim is not None
        await runs.finish(gateway, claim, "rain")

    command("add", "--every", "60", "Look.")
    assert "segue jobs show 1" in command("run", "1")
    assert "Job 1 is running now." in command.refused("run", "1")
    runner.run(carry_out())
    assert ": kept in its own session" in command("show", "1")
    (run,) = decoded(command("show", "1", "--json"))["runs"]
    assert (run["state"], run["reports"][0]["text"]) == ("reported", "rain")


@pytest.mark.usefixtures("gateway")
def test_the_status_shows_the_next_three(command: Command, url: str):
    for minutes in (400, 100, 300, 200):
        command("add", "--in", str(minutes), "--name", f"in {minutes}", "Look.")
    status = Command("status", {"SEGUE_STORE": url})
    seen = decoded(status("--json"))["jobs"]
    assert [job["name"] for job in seen] == ["in 100", "in 200", "in 300"]
    assert "in 100: " in status()


# Conditions, permissions and limits


@pytest.mark.usefixtures("gateway")
def test_conditions_permissions_and_limits_are_kept_and_shown(command: Command, tmp_path: Path):
    told = command(
        *("add", "--every", "60", "--only-if-file", str(tmp_path), "--allow", "git pull"),
        *("--allow", "send_file", "--may-change-jobs", "--fallback", "--daily-tokens", "5000"),
        "Look.",
    )
    assert f"Only if {tmp_path} has changed, appeared or vanished." in told
    assert "It may do without asking: git pull, send_file." in told
    job = decoded(command("show", "1", "--json"))
    assert job["only_if"] == {"kind": "file", "target": str(tmp_path)}
    assert (job["allows"], job["may_change_jobs"]) == (["git pull", "send_file"], True)
    assert (job["fallback"], job["daily_tokens"], job["checks"]) == (True, 5000, 0)
    shown = " ".join(command("show", "1").split())
    assert "may do without asking git pull, send_file its runs may make and change jobs" in shown
    assert "if a report fails it goes to your other home channels limit 5,000 tokens a" in shown


@pytest.mark.usefixtures("gateway")
def test_a_link_is_watched_and_not_what_it_leads_to_now(command: Command, tmp_path: Path):
    (tmp_path / "link").symlink_to("release-1")
    command("add", "--every", "60", "--only-if-file", f"{tmp_path}/link", "Look.")
    assert decoded(command("show", "1", "--json"))["only_if"]["target"] == f"{tmp_path}/link"


@pytest.mark.usefixtures("gateway")
def test_what_a_job_may_do_is_shown_even_if_that_is_nothing(command: Command):
    command("add", "--in", "60", "Look.")
    assert "may do without asking nothing limit 1,000,000 tokens" in " ".join(
        command("show", "1").split()
    )
    assert decoded(command("show", "1", "--json"))["daily_tokens"] == 1_000_000


@pytest.mark.usefixtures("gateway")
def test_conditions_permissions_and_limits_are_edited(command: Command):
    command("add", "--every", "60", "--only-if-command", "date", "--allow", "git pull", "Look.")
    command("edit", "1", "--only-if-page", "https://example.org", "--fallback")
    job = decoded(command("show", "1", "--json"))
    assert job["only_if"] == {"kind": "page", "target": "https://example.org"}
    assert (job["allows"], job["fallback"]) == (["git pull"], True)
    command("edit", "1", "--always", "--allow-nothing", "--no-fallback", "--daily-tokens", "7")
    job = decoded(command("show", "1", "--json"))
    assert (job["only_if"], job["allows"], job["fallback"]) == (None, [], False)
    assert job["daily_tokens"] == 7


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("--only-if-page", "example.org"), "begins with http"),
        (("--only-if-page", "https://x.org", "--only-if-command", "date"), "one condition"),
        (("--allow", "rm -r *"), "it would allow nothing"),
        (("--daily-tokens", "0"), "0 is not in the range"),
    ],
)
def test_a_condition_or_limit_that_cannot_work_is_refused(
    command: Command, given: tuple[str, ...], reason: str
):
    assert reason in command.refused("add", "--every", "60", *given, "Look.")
    assert decoded(command("--json")) == []


def test_the_first_check_of_a_condition_is_announced_and_its_failure_shown(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    async def fail() -> None:
        claim = await runs.claim(gateway)
        assert claim is not None
        await runs.fail(gateway, claim, "it ended with exit code 3")

    announced = "The gateway makes the first check now. If it fails, `segue jobs show 1` says why."
    added = command("add", "--every", "60", "--only-if-command", "exit 3", "Look.")
    assert announced in " ".join(added.split())
    runner.run(fail())
    assert "failed: it ended with exit code 3" in " ".join(command("show", "1").split())


def test_how_often_a_condition_was_checked_is_shown(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    async def check() -> None:
        claim = await runs.claim(gateway)
        assert claim is not None
        assert await runs.check(gateway, claim, Seen("1", "one")) is None

    command("add", "--every", "60", "--only-if-command", "date", "Look.")
    runner.run(check())
    assert "; checked " in command()
    assert "checked 1 time, last " in " ".join(command("show", "1").split())
    assert decoded(command("show", "1", "--json"))["runs"] == []


# Not delivered is never "sent"


def test_what_was_not_delivered_is_in_the_record_and_in_the_status(
    command: Command, gateway: Store, runner: asyncio.Runner, url: str
):
    async def carry_out() -> None:
        await owners.clear_home(gateway, ME, Platform.TELEGRAM)
        claim = await runs.claim(gateway)
        assert claim is not None
        await runs.finish(gateway, claim, "rain")

    runner.run(owners.set_home(gateway, ME, HomeChannel(address=CHAT)))
    command("add", "--every", "60", "--deliver", "telegram", "--name", "weather", "Look.")
    command("run", "1")
    runner.run(carry_out())
    assert "not delivered to telegram (There is no home channel" in command("show", "1")
    assert "sent" not in command()
    status = Command("status", {"SEGUE_STORE": url})
    assert "job 1, weather: not delivered to telegram (There is no home channel" in status()
    (lost,) = decoded(status("--json"))["reports_not_delivered"]
    assert (lost["job"], lost["state"], lost["text"]) == (1, "failed", "rain")


def test_a_report_that_stands_in_for_another_is_shown_with_it(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    async def carry_out() -> None:
        await owners.set_home(gateway, ME, HomeChannel(address=CHAT))
        claim = await runs.claim(gateway)
        assert claim is not None
        await runs.finish(gateway, claim, "rain")
        for report in await reports.failed(gateway):
            await reports.pass_on(gateway, report)

    slack = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C1")
    runner.run(owners.set_home(gateway, ME, HomeChannel(address=slack)))
    command("add", "--every", "60", "--deliver", "slack", "--fallback", "Look.")
    runner.run(owners.clear_home(gateway, ME, Platform.SLACK))
    command("run", "1")
    runner.run(carry_out())
    shown = " ".join(command("show", "1").split())
    assert "not delivered to slack (There is no home channel on slack" in shown
    assert "waiting for telegram instead" in shown
    (run,) = decoded(command("show", "1", "--json"))["runs"]
    failed, waiting = run["reports"]
    assert (waiting["instead_of"], waiting["to"]) == (failed["number"], "telegram")


# Zones


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("when", [("--in", "9"), ("--at", "09:00"), ("--every", "60")])
def test_the_zone_of_a_job_is_always_recorded(command: Command, when: tuple[str, str]):
    """Even where only a later reader of its times needs it."""
    command("add", *when, "Look.")
    assert decoded(command("show", "1", "--json"))["zone"] == "Europe/Oslo"
    command.environment["TZ"] = "Asia/Tokyo"  # the machine has moved
    assert "(Europe/Oslo)" in command("show", "1")


@pytest.mark.usefixtures("gateway")
def test_a_zone_without_a_name_is_refused(command: Command, tmp_path: Path):
    """Where /etc/localtime is a copy of a file, for example."""
    zone = next(Path(folder, "Asia/Tokyo") for folder in zoneinfo.TZPATH if Path(folder).is_dir())
    (tmp_path / "localtime").write_bytes(zone.read_bytes())
    command.environment["TZ"] = f"{tmp_path}/localtime"
    assert "time zone has no name" in command.refused("add", "--in", "9", "Look.")
    command("add", "--in", "9", "--zone", "Asia/Tokyo", "Look.")


def test_a_job_is_its_owners_once_all_its_words_are(
    command: Command, gateway: Store, runner: asyncio.Runner
):
    async def authors() -> Provenance:
        return (await jobs.found(gateway, ME, 1)).provenance

    async def read_outside() -> None:
        job = await jobs.found(gateway, ME, 1)
        await jobs.edit(gateway, ME, 1, replace(job, provenance=provenance.STRANGER))

    command("add", "--every", "60", "--deliver", "local", "Read the news.")
    assert runner.run(authors()) == provenance.OWNER
    runner.run(read_outside())
    command("edit", "1", "Read the mail.")  # its name is still the old one
    assert runner.run(authors()) == provenance.OWNER | provenance.STRANGER
    command("edit", "1", "--name", "mail", "Read the mail.")
    assert runner.run(authors()) == provenance.OWNER
