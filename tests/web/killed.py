"""Gateways that are processes of their own, and can be killed at any moment."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess

from segue import config
from segue.gateway import service
from segue.web import adapter as adapter  # so that each finds everything imported when it starts

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["__main__", __name__])


def _run(environment: Mapping[str, str]) -> None:
    logging.disable()
    asyncio.run(service.serve(config.load(environment)))


def started(environment: Mapping[str, str]) -> ForkServerProcess:
    """A gateway, which has just begun to start."""
    process = _processes.Process(target=_run, args=(dict(environment),), daemon=True)
    process.start()
    return process


def kill(process: ForkServerProcess) -> None:
    process.kill()
    process.join()
    process.close()
