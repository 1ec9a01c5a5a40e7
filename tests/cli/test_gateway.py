"""`segue gateway`, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import segue.store
from segue.core.address import HomeChannel, Platform
from segue.core.errors import UserError
from segue.core.session import ME
from segue.gateway import background
from segue.handoffs import queries as handoffs
from segue.store import Store, Topic, deliveries, gateways, outbox, owners, sessions
from segue.store.gateways import LinkState
from segue.store.outbox import Draft
from segue.store.processes import whose
from tests.harness import quiet_adapter
from tests.harness.gateways import (
    alive,
    begin_python,
    none_left,
    piped,
    segue_says,
    serving,
)
from tests.harness.terminal import Person
from tests.program import REAL_START
from tests.store.samples import DM


async def pid_of_the_only_one(person: Person) -> int:
    (gateway,) = await alive(person)
    return whose(gateway.process)[1]


def ended(pid: int) -> None:
    """Wait until that process, which is not our child, has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], 20)[0], "it lives on"
    finally:
        os.close(process)
    while Path(f"/proc/{pid}").exists():  # until its parent has reaped it
        time.sleep(0.001)


@asynccontextmanager
async def announced(person: Person, *platforms: Platform) -> AsyncGenerator[Store]:
    """Register this test process as a gateway."""
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        await gateways.announce(store, "the gateway of the test", platforms, seconds=600)
        yield store


# Starting and stopping


async def test_a_gateway_outlives_the_terminal_that_started_it_until_it_is_stopped(person: Person):
    log = serving(person)
    person.environment.update(REAL_START)
    async with none_left(person):
        async with person.opens("gateway", "start", columns=200) as shown:
            assert await shown.end() == 0
            await shown.shows("It serves telegram (connected), web (connected).")
            await shown.shows(str(log))
        pid = await pid_of_the_only_one(person)
        assert os.getsid(pid) not in {pid, os.getsid(0), shown.process.pid}
        if os.geteuid() == 0:  # the kernel hides it from other users, because it holds secrets
            process = Path(f"/proc/{pid}")
            assert str((process / "fd/0").readlink()) == "/dev/null"
            assert str((process / "cwd").readlink()) == person.environment["HOME"]
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert segue_says(person, "gateway", "status").returncode == 0
        stopped = segue_says(person, "gateway", "stop")
        assert stopped.returncode == 0, stopped.stderr
        assert stopped.stdout.startswith("Stopped: ")
        assert await alive(person) == ()
        assert segue_says(person, "gateway", "status").returncode == 3


async def test_a_restore_names_the_gateway_that_has_the_store_open(person: Person):
    serving(person)
    person.environment.update(REAL_START)
    file = f"{person.cwd}/backup"
    async with none_left(person):
        assert segue_says(person, "gateway", "start").returncode == 0
        assert segue_says(person, "backup", file).returncode == 0
        pid = await pid_of_the_only_one(person)
        refused = segue_says(person, "restore", file).stderr
        assert f"Running: the gateway (process {pid}, since " in refused
        assert refused.endswith("Type `segue gateway stop`.\n")


def misspell(settings: Path) -> None:
    settings.write_text(f"modle = 'x'\n{settings.read_text()}")


async def test_a_gateway_can_be_watched_and_stopped_with_a_misspelt_setting(person: Person):
    serving(person)
    async with none_left(person):
        assert segue_says(person, "gateway", "start").returncode == 0
        settings = Path(person.environment["SEGUE_CONFIG"])
        misspell(settings)
        for words in ("status", "logs", "stop"):
            done = segue_says(person, "gateway", words)
            assert done.returncode == 0, done.stderr
            warning = f"Warning: there is an error in {settings}: there is no setting modle"
            assert warning in done.stderr
            assert done.stdout
        assert await alive(person) == ()


async def test_a_second_gateway_is_refused_naming_the_first(person: Person):
    serving(person)
    async with none_left(person):
        first = segue_says(person, "gateway", "start", "--json")
        assert first.returncode == 0, first.stderr
        output = json.loads(first.stdout)
        assert [p["platform"] for p in output["platforms"]] == ["telegram", "web"]
        second = segue_says(person, "gateway", "start")
        assert second.returncode == 1
        assert f"{output['name']} already serves telegram, web." in second.stderr
        assert await pid_of_the_only_one(person) == output["pid"]
        stopped = json.loads(segue_says(person, "gateway", "stop", "--json").stdout)
        assert [gateway["pid"] for gateway in stopped["stopped"]] == [output["pid"]]


async def test_a_gateway_that_cannot_start_reports_the_reason_at_once(person: Person):
    log = serving(person, quiet_adapter.BROKEN)
    async with none_left(person):
        began = time.monotonic()
        started = segue_says(person, "gateway", "start")
        assert time.monotonic() - began < 15, "nobody waits for what has ended"
        assert started.returncode == 1
        assert "The gateway did not start: " in started.stderr
        assert "this adapter is broken" in started.stderr
        assert "Traceback" not in started.stderr
        assert "this adapter is broken" in log.read_text()
        assert await alive(person) == ()


async def test_a_platform_that_cannot_be_loaded_is_reported_and_does_not_stop_the_others(
    person: Person,
):
    serving(person, quiet_adapter.REFUSES)
    async with none_left(person):
        started = segue_says(person, "gateway", "start")
        assert started.returncode == 0, started.stderr
        assert "It serves telegram (down), web (connected)." in started.stdout
        for output in (started.stdout, segue_says(person, "gateway", "status").stdout):
            assert "this adapter makes nothing" in output
            assert "stop the gateway" not in output


async def test_a_gateway_with_an_unwritable_log_does_not_start(person: Person):
    serving(person)
    person.environment["SEGUE_GATEWAY_LOG"] = "/dev/null/gateway.log"
    started = segue_says(person, "gateway", "start")
    assert started.returncode == 1
    assert "did not start: /dev/null/gateway.log cannot be written (" in started.stderr


async def test_a_killed_gateway_is_neither_reported_as_running_nor_signalled(person: Person):
    serving(person)
    async with none_left(person):
        assert segue_says(person, "gateway", "start").returncode == 0
        pid = await pid_of_the_only_one(person)
        os.kill(pid, signal.SIGKILL)
        ended(pid)
        assert segue_says(person, "gateway", "status").returncode == 3
        stopped = segue_says(person, "gateway", "stop")
        assert stopped.returncode == 1
        assert "No gateway is running. Type `segue gateway start`." in stopped.stderr
        again = segue_says(person, "gateway", "start")
        assert again.returncode == 0, again.stderr


async def test_a_gateway_on_another_machine_cannot_be_stopped(
    person: Person, monkeypatch: pytest.MonkeyPatch
):
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as here:
        monkeypatch.setattr("socket.gethostname", lambda: "far-away")
        async with announced(person, Platform.TELEGRAM):
            monkeypatch.undo()
            with pytest.raises(UserError, match=r"it belongs to the machine far-away\."):
                await background.stop(here)


async def test_a_gateway_that_does_not_stop_is_reported_with_its_process(person: Person):
    deaf = (
        "import asyncio, os, signal, sys, segue.store\n"
        "from segue.store import gateways\n"
        "async def main():\n"
        "    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'heard\\n'))\n"
        "    async with await segue.store.open(sys.argv[1]) as store:\n"
        "        await gateways.announce(store, 'a deaf one', [], seconds=600)\n"
        "        print('here', flush=True)\n"
        "        while True: await asyncio.sleep(0.1)\n"
        "asyncio.run(main())\n"
    )
    url = person.environment["SEGUE_STORE"]
    with begin_python(person, "-c", deaf, url) as process:
        try:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "here\n"
            async with await segue.store.open(url) as store:
                with pytest.raises(UserError, match=rf"did not stop .* `kill -9 {process.pid}`\."):
                    await background.stop(store, seconds=0.5)
            assert await asyncio.to_thread(process.stdout.readline) == "heard\n"
        finally:
            process.kill()


async def test_a_gateway_that_is_not_ready_in_time_is_stopped(
    person: Person, monkeypatch: pytest.MonkeyPatch
):
    log = serving(person)
    async with (
        none_left(person),
        await segue.store.open(person.environment["SEGUE_STORE"]) as store,
    ):
        for name, value in person.environment.items():
            monkeypatch.setenv(name, value)
        child = background._Child()
        monkeypatch.setattr(background, "_Child", lambda: child)
        with pytest.raises(UserError, match="was not ready within 0 seconds"):
            await background.start(store, log, seconds=0.01)
        assert child.pid is not None
        await asyncio.to_thread(ended, child.pid)
        assert await gateways.alive(store) == ()


async def test_a_gateway_whose_start_is_cancelled_is_stopped(
    person: Person, monkeypatch: pytest.MonkeyPatch
):
    """Even at the moment at which it is started."""
    log = serving(person)
    loop = asyncio.get_running_loop()
    with subprocess.Popen(["/bin/sleep", "60"]) as gateway:  # noqa: ASYNC220

        def spawn(pipe: int, *_: object) -> None:
            loop.call_soon_threadsafe(starting.cancel)
            time.sleep(0.1)  # until the caller no longer waits for it
            os.write(pipe, f"{gateway.pid}\n".encode())
            os.close(pipe)

        monkeypatch.setattr(background, "_spawn", spawn)
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            starting = asyncio.create_task(background.start(store, log))
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert await asyncio.to_thread(gateway.wait, 20) == -signal.SIGTERM


async def test_in_the_foreground_it_logs_to_standard_error_and_stops_on_a_signal(person: Person):
    serving(person)
    with piped(person, "gateway", "run") as gateway:
        async with announced(person) as store, store.listen(Topic.HANDOFFS) as wake:
            while len(await gateways.alive(store)) < 2:
                assert await wake.wait(20)
            pids = {whose(gateway.process)[1] for gateway in await gateways.alive(store)}
        assert gateway.process.pid in pids
        gateway.process.terminate()
        code, _, output = await gateway.ends()
    assert code == 0, output
    assert " INFO segue.gateway" in output
    assert await alive(person) == ()


# Status


async def test_the_status_lists_platforms_handoffs_and_failed_deliveries(person: Person):
    serving(person)
    async with announced(person, Platform.TELEGRAM, Platform.MATRIX) as store:
        await owners.set_home(store, ME, HomeChannel(address=DM, name="Home\x1b[2J"))
        await gateways.report(
            store,
            Platform.TELEGRAM,
            LinkState.CONNECTED,
            account="4711",
            link="https://t.me/x?start={code}",
        )
        await gateways.report(store, Platform.MATRIX, LinkState.DOWN, detail="the server is asleep")
        session = await sessions.create(store, ME, Platform.LOCAL, title="Boats")
        await handoffs.request(store, session.id, Platform.TELEGRAM, home=DM)
        over = await sessions.create(store, ME, Platform.LOCAL, title="Ships")
        await handoffs.request(store, over.id, Platform.TELEGRAM, home=DM)
        claims = [await handoffs.claim_next(store, [Platform.TELEGRAM]) for _ in range(2)]
        ships = next(claim for claim in claims if claim and claim.session_id == over.id)
        assert await handoffs.fail(store, ships, "The chat is closed.")
        await outbox.enqueue(store, Draft(key="k", address=DM, body="hello"))
        (outgoing,) = await deliveries.claim(store, [Platform.TELEGRAM])
        assert await deliveries.uncertain(store, outgoing, "It may have arrived.")

        output = segue_says(person, "gateway", "status")
        assert output.returncode == 0, output.stderr
        assert "the gateway of the test, running since" in output.stdout
        assert "telegram  connected as 4711 since" in output.stdout
        assert f"home channel {DM} (Home[2J)" in output.stdout
        assert "matrix    down since" in output.stdout
        assert "(the server is asleep); no home channel yet: send /sethome" in output.stdout
        assert "  Boats to telegram, just now, taken up" in output.stdout
        assert "  Ships to telegram, just now, failed: The chat is closed." in output.stdout
        assert f"Not delivered\n  {DM}, just now, uncertain: It may have arrived." in output.stdout
        assert output.stdout.endswith(f"Log: {person.environment['SEGUE_GATEWAY_LOG']}\n")
        assert "\x1b" not in output.stdout

        as_json = json.loads(segue_says(person, "gateway", "status", "--json").stdout)
        (gateway,) = as_json["gateways"]
        assert (as_json["running"], gateway["pid"]) == (True, os.getpid())
        links = {platform["platform"]: platform for platform in gateway["platforms"]}
        assert links["telegram"]["home"] == DM.key
        assert (links["matrix"]["state"], links["matrix"]["home"]) == ("down", None)
        assert {handoff["state"] for handoff in as_json["handoffs"]} == {"running", "failed"}
        assert [lost["error"] for lost in as_json["not_delivered"]] == ["It may have arrived."]


async def test_the_status_fits_a_narrow_terminal(person: Person):
    serving(person)
    async with (
        announced(person, Platform.TELEGRAM),
        person.opens("gateway", "status", columns=40) as shown,
    ):
        assert await shown.end() == 0
        await shown.shows("send /sethome in the chat that should receive handoffs")


async def test_a_gateway_without_platforms_is_reported_as_such(person: Person):
    async with announced(person):
        assert "It serves no platform" in segue_says(person, "gateway", "status").stdout


# Log


async def test_the_log_is_shown_from_its_end(person: Person):
    log = serving(person)
    missing = segue_says(person, "gateway", "logs")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f"There is no log at {log} yet." in missing.stderr
    log.parent.mkdir()
    log.write_text("".join(f"line {n}\n" for n in range(200)) + "half a \x1b[2Jline")
    shown = segue_says(person, "gateway", "logs")
    assert shown.stdout.splitlines()[0] == "line 151"
    assert shown.stdout.splitlines()[-1] == r"half a \x1b[2Jline"
    assert len(shown.stdout.splitlines()) == 50
    assert segue_says(person, "gateway", "logs", "-n", "2").stdout.splitlines()[0] == "line 199"
    as_json = segue_says(person, "gateway", "logs", "-n", "1", "--json").stdout
    assert json.loads(as_json) == {"line": r"half a \x1b[2Jline"}


async def test_the_log_is_followed_until_ctrl_c(person: Person):
    log = serving(person)
    log.parent.mkdir()
    log.write_text("before\n")
    async with person.opens("gateway", "logs", "-f") as shown:
        await shown.see("before")
        with log.open("a") as file:
            file.write("after\n")
        await shown.see("after")
        log.rename(log.with_suffix(".log.1"))
        log.write_text("in a new file\n")
        await shown.see("in a new file")
        shown.press("c-c")
        assert await shown.end() == 130
        assert "Abort" not in shown.text
