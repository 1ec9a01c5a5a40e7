"""Writing a session into a file, or onto standard output."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path

import click

from segue.core.session import ME, Session
from segue.core.text import one_line
from segue.store import Store
from segue.terminal.output import visible_json

Write = Callable[[bytes], object]


async def export_to(
    store: Store, name: str, target: Path | None, *, force: bool
) -> tuple[Session, int]:
    """Write the session to `target`, or to standard output, and say how many messages it has. What
    is there is not replaced, unless by `force`, and never by half a session."""
    session = await store.sessions.find(ME, name)
    messages = -1  # the first line is a header
    with _place(target, force=force) as write:
        async for line in store.transcripts.export(ME, session.id):
            write(line)
            messages += 1
    return session, messages


def _place(target: Path | None, *, force: bool) -> AbstractContextManager[Write]:
    return _file(target, force=force) if target else _standard_output()


@contextlib.contextmanager
def _standard_output() -> Generator[Write]:
    if sys.stdout.isatty():
        yield lambda line: click.echo(visible_json(line.decode()), nl=False)
    else:
        yield sys.stdout.buffer.write


@contextlib.contextmanager
def _file(target: Path, *, force: bool) -> Generator[Write]:
    """A file that becomes `target` when all went well; readable for its owner alone, for it holds
    a conversation."""
    try:
        if _is_device(target):
            with target.open("wb") as file:
                yield file.write
        else:
            with _new(target, force=force) as write:
                yield write
    except FileExistsError as error:
        told = f"{one_line(str(target))} is there already. Give another name, or add --force."
        raise click.ClickException(told) from error
    except OSError as error:
        told = f"{one_line(str(target))} cannot be written: {error.strerror or error}."
        raise click.ClickException(told) from error


@contextlib.contextmanager
def _new(target: Path, *, force: bool) -> Generator[Write]:
    if not force and os.path.lexists(target):
        raise FileExistsError
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            yield file.write
        if force:
            temporary.replace(os.path.realpath(target))
        else:
            # Unlike a rename, this does not replace what somebody made meanwhile.
            target.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _is_device(target: Path) -> bool:
    """Whether it is something like /dev/stdout or a pipe, which is written to and not replaced."""
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)
