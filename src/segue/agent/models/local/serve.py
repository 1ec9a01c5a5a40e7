"""The process that runs the embedded model: an OpenAI-compatible server on loopback.

`LocalServer` starts it with a lock that it holds for its whole life. It writes its address and key
to a file, and stops when it has been idle for a while. Each client holds a shared lock on the `use`
file during a request, so that the server cannot stop in the middle of it.
"""

from __future__ import annotations

import http.client
import importlib
import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from segue.agent.models.local import runtime
from segue.system import files, locks

CONTEXT = 8192
_MAX_THREADS = 8
"""More threads do not make a model this small faster."""
_KEPT_PROMPTS = 128
"""Megabytes for the cached prompts of conversations that are not being answered at the moment."""
_LOG_LIMIT = 1024 * 1024
_POLL_SECONDS = 5.0
_WARNINGS = 2


class ServerAddress(msgspec.Struct, frozen=True):
    """The server's address and key, as the server itself publishes them."""

    url: str
    key: str
    pid: int


class RunFolder:
    """The folder of the running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "server.lock"
        """Locked as long as the server runs."""
        self.use = folder / "use"
        """Locked (shared) by every client that uses the server, and touched afterwards."""
        self.state = folder / "server.json"
        """Holds a ServerAddress as JSON."""
        self.log = folder / "server.log"


class _Use:
    """Tracks whether the server is still needed."""

    def __init__(self, run: RunFolder, weights: Path, idle: float) -> None:
        self._run = run
        self._weights = weights
        self._idle = idle
        self._fd = files.open_file(run.use)
        self._seen = os.fstat(self._fd).st_mtime_ns
        self._since = time.monotonic()

    def over(self) -> bool:
        """True if it is time to stop. After an idle timeout this process holds the lock, so no
        client can start to use it."""
        if not (self._weights.exists() and self._run.state.exists()):
            return True
        # Timestamps are only compared for equality, because the wall clock may be changed.
        if (touched := os.fstat(self._fd).st_mtime_ns) != self._seen:
            self._seen = touched
            self._since = time.monotonic()
        return time.monotonic() - self._since >= self._idle and locks.try_lock(self._fd)


def main(run: RunFolder, weights: Path, idle: float) -> None:
    """Serve until the server is no longer needed."""
    signal.signal(signal.SIGTERM, _leave)
    key = secrets.token_urlsafe(32)
    use = _Use(run, weights, idle)
    server = _server(weights, key)
    _ask_for_health(server.listening_address)
    reached = ServerAddress(url=f"{server.listening_address}/v1", key=key, pid=os.getpid())
    files.replace(run.state, msgspec.json.encode(reached))
    try:
        while not use.over():
            _bound_log()
            time.sleep(min(_POLL_SECONDS, idle / 4))
    finally:
        run.state.unlink(missing_ok=True)


def _leave(_signal: int, _frame: object) -> None:
    sys.exit(0)


def _bound_log() -> None:
    if os.fstat(sys.stderr.fileno()).st_size > _LOG_LIMIT:
        os.ftruncate(sys.stderr.fileno(), 0)


def _server(weights: Path, key: str) -> Any:
    """Create the server. It listens on a free port from then on."""
    try:
        xllamacpp: Any = importlib.import_module(runtime.PACKAGE)
    except ImportError as error:
        sys.exit(runtime.why(error))
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = min(os.cpu_count() or 1, _MAX_THREADS)
    params.cache_ram_mib = _KEPT_PROMPTS
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.offline = True
    # No web interface, and no endpoint that shows conversations.
    params.ui = False
    params.cors_origins = ""
    params.endpoint_slots = False
    params.verbosity = _WARNINGS
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        sys.exit(f"{weights} cannot be loaded: {error}")


def _ask_for_health(url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("GET", "/health")
    status = connection.getresponse().status
    connection.close()
    if status != 200:
        sys.exit(f"it is not well: HTTP {status}")


if __name__ == "__main__":
    # The parent exits at once, so that the caller need not wait for this process or reap it.
    if os.fork():
        os._exit(0)
    main(RunFolder(Path(sys.argv[1])), Path(sys.argv[2]), float(sys.argv[3]))
