"""Writes a session to a file or to standard output."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import click

from segue.chat.output import visible_json
from segue.commands.session import new_file
from segue.core.session import ME, Session
from segue.core.text import one_line
from segue.store import Store

Write = Callable[[bytes], object]


async def export_to(
    store: Store, name: str, target: Path | None, *, force: bool
) -> tuple[Session, int]:
    """Write the session to `target` or to standard output. Return it with its number of messages.

    An existing file is replaced only with `force`, and never by an incomplete session.
    """
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
        yield lambda line: click.echo(visible_json(line.decode()), nl=False)  # noqa: TID251
    else:
        yield sys.stdout.buffer.write


@contextlib.contextmanager
def _file(target: Path, *, force: bool) -> Generator[Write]:
    """Open the file, and turn errors into messages for the user."""
    try:
        if target.exists() and not target.is_file():
            # A device such as /dev/stdout or a pipe is written to, never replaced.
            with target.open("wb") as file:
                yield file.write
        else:
            with _replacement(target) if force else new_file(target) as file:
                yield file.write
    except FileExistsError as error:
        reason = f"{one_line(str(target))} already exists. Give another name, or add --force."
        raise click.ClickException(reason) from error
    except OSError as error:
        reason = f"{one_line(str(target))} cannot be written: {error.strerror or error}."
        raise click.ClickException(reason) from error


@contextlib.contextmanager
def _replacement(target: Path) -> Generator[IO[bytes]]:
    """Yield a temporary file that replaces `target` when complete. Symbolic links are kept."""
    real = Path(os.path.realpath(target))
    number, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
