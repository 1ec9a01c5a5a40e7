"""One real Chromium for all tests in this folder, with a separate browser context for each test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from segue import config
from segue.config import Settings
from tests.web.chromium.watched_page import Eyes
from tests.web.gateways import environment


@pytest.fixture(scope="session")
def lasting() -> Generator[asyncio.Runner]:
    """The event loop of all these tests, because the browser outlives each of them."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def runner(lasting: asyncio.Runner) -> asyncio.Runner:
    return lasting


@pytest.fixture(scope="session")
def chromium(lasting: asyncio.Runner) -> Generator[Browser]:
    """The system's Chromium. It starts with the first test that needs it."""
    driver = async_playwright()
    program = shutil.which("chromium")
    assert program, "Chromium is missing; `make test-real` installs it"

    async def start() -> Browser:
        playwright = await driver.start()
        return await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])

    async def stop(browser: Browser) -> None:
        await browser.close()
        await driver.__aexit__()

    browser = lasting.run(start())
    yield browser
    lasting.run(stop(browser))


@pytest.fixture
def eyes(chromium: Browser, runner: asyncio.Runner) -> Generator[Eyes]:
    eyes = Eyes(chromium)
    yield eyes
    runner.run(eyes.close())


@pytest.fixture
def settings(tmp_path: Path, port: int) -> Settings:
    """Settings with a separate port for the page."""
    return config.load(environment(tmp_path, port))
