"""A real Matrix server for a test run: Synapse, in a separate environment.

It listens on loopback only and knows no other servers. Its data is in a folder that is removed
afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

NAME = "segue.test"
"""The server's name, which is the last part of all ids on it."""
PYTHON = Path(sys.prefix) / "synapse" / "bin" / "python"
"""Where `make test-real` installs Synapse."""
_STARTS = 60.0
"""Seconds that it has to start, on a busy machine too."""
_LIMITS = (
    "message", "login", "joins", "invites", "registration", "room_creation", "admin_redaction",
    "delayed_event_mgmt", "media_create", "reports", "presence",
)  # fmt: skip
_LOCAL: Any = {"trust_env": False, "verify": False}
"""Reading the certificates for TLS, which a server on loopback does not have, takes longer than a
call."""
_MEMORY = Path("/dev/shm")
_EMPTY = PYTHON.parents[1] / "empty.db"
"""The database of a server that has just been installed. To create it takes longer than a start."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the server, logged in on one device."""

    user_id: str
    device_id: str
    token: str
    password: str


class Server:
    """A server with its own folder, which can be stopped and started."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        """`settings` override those of `homeserver.yaml`. The folder is in memory if possible."""
        self.folder = folder
        self._data = folder / "data.db"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._secret = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        # JSON is YAML.
        self._config.write_text(json.dumps(self._settings() | settings))
        (folder / "log.yaml").write_text(json.dumps(_logging(folder)))
        seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")

    @property
    def _config(self) -> Path:
        return self.folder / "homeserver.yaml"

    def _settings(self) -> dict[str, Any]:
        listener = {
            "port": self.port,
            "type": "http",
            "bind_addresses": ["127.0.0.1"],
            "resources": [{"names": ["client"]}],
        }
        often = {"per_second": 100_000, "burst_count": 100_000}
        limits: dict[str, Any] = {f"rc_{name}": often for name in _LIMITS}
        limits["rc_login"] = dict.fromkeys(("address", "account", "failed_attempts"), often)
        limits["rc_joins"] = {"local": often, "remote": often}
        limits["rc_invites"] = dict.fromkeys(("per_room", "per_user", "per_issuer"), often)
        limits["rc_presence"] = {"per_user": often}
        return limits | {
            "server_name": NAME,
            "public_baseurl": self.url,
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": str(self._data)}},
            "media_store_path": f"{self.folder}/media",
            "signing_key_path": f"{self.folder}/signing.key",
            "log_config": f"{self.folder}/log.yaml",
            "registration_shared_secret": self._secret,
            "trusted_key_servers": [],
            "bcrypt_rounds": 4,
            "report_stats": False,
            "presence": {"enabled": False},
            "push": {"enabled": False},
            "stats": {"enabled": False},
            "user_directory": {"enabled": False},
            "thumbnail_sizes": [],
            "caches": {"sync_response_cache_duration": "0s"},
            "max_upload_size": "20M",
            "rooms_joins_limit": 0,
        }

    def start(self) -> None:
        """Start the server, and return when it answers."""
        if not self._data.exists() and _EMPTY.exists():
            shutil.copyfile(_EMPTY, self._data)
        words = [PYTHON, "-m", "synapse.app.homeserver", "-c", self._config]
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + _STARTS
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}/health", **_LOCAL).is_success:
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Synapse does not start: {self._logs()}")
            time.sleep(0.05)

    def stop(self, *, kill: bool = False) -> None:
        """Stop the server. Idempotent."""
        process = self._process
        self._process = None
        if process is not None:
            stop = process.kill if kill else process.terminate
            stop()
            process.wait(_STARTS)

    def keep_empty(self) -> None:
        """Keep the database for later servers."""
        self.stop()
        new = _EMPTY.with_suffix(f".{os.getpid()}")
        shutil.copyfile(self._data, new)
        new.replace(_EMPTY)
        self.start()

    def _logs(self) -> str:
        files = (self.folder / "output", self.folder / "log")
        return "\n".join(it.read_text()[-5000:] for it in files if it.exists())

    def register(self, name: str, *, display_name: str = "", admin: bool = False) -> Account:
        """Create a user by the shared secret."""
        with httpx2.Client(base_url=self.url, timeout=_STARTS, **_LOCAL) as client:
            path = "/_synapse/admin/v1/register"
            password = secrets.token_hex(8)
            nonce = _answer(client.get(path))["nonce"]
            role = "admin" if admin else "notadmin"
            signed = "\0".join((nonce, name, password, role)).encode()
            mac = hmac.new(self._secret.encode(), signed, hashlib.sha1).hexdigest()
            given = {"nonce": nonce, "username": name, "displayname": display_name or name}
            given |= {"password": password, "mac": mac}
            found = _answer(client.post(path, json={**given, "admin": admin}))
        return Account(found["user_id"], found["device_id"], found["access_token"], password)


@contextlib.contextmanager
def running(**settings: Any) -> Generator[Server]:
    """Run a server inside the `with`."""
    root = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="segue-synapse-", dir=root) as name:
        server = Server(Path(name), **settings)
        try:
            server.start()
            if not _EMPTY.exists():
                server.keep_empty()
            yield server
        finally:
            server.stop(kill=True)


def _answer(response: httpx2.Response) -> dict[str, Any]:
    if not response.is_success:
        raise RuntimeError(f"Synapse answers {response.status_code}: {response.text}")
    return response.json()


def _logging(folder: Path) -> dict[str, Any]:
    handler = {"class": "logging.FileHandler", "filename": f"{folder}/log"}
    return {
        "version": 1,
        "handlers": {"file": handler},
        "root": {"level": "WARNING", "handlers": ["file"]},
        "disable_existing_loggers": False,
    }
