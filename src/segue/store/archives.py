"""The file of a backup: a tar with a manifest, which names each file with its size and checksum.

With a passphrase, the whole tar is encrypted in the format of age, which the program `age` can also
read. A file appears under its name only when it is whole. Long copies report how much is done, in
bytes or in pages.

What is being made has a unique name, and is locked as long as its maker lives. The kernel frees the
lock however the maker ends. What has a free lock was left behind, and the next maker in the same
folder removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

import segue
from segue.core.errors import UserError
from segue.store import database, errors
from segue.system import files, locks

Progress = Callable[[int, int], None]
"""Called with what is done, and with the whole."""
_CHUNK = 1 << 20


def ignore_progress(done: int, whole: int) -> None:
    """Show no progress."""


class CopyMeter:
    """Adds up what is done and reports the sum."""

    def __init__(self, whole: int, progress: Progress) -> None:
        self._whole = whole
        self._progress = progress
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._whole)


class MeteredFile:
    """A file to read from. The meter counts what is read."""

    def __init__(self, file: IO[bytes], meter: CopyMeter) -> None:
        self._file = file
        self._meter = meter

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._file.read(size)
        self._meter.add(len(chunk))
        return chunk

    def chunks(self) -> Iterator[bytes]:
        """The rest of the file, in parts."""
        while chunk := self.read(_CHUNK):
            yield chunk


class DigestedFile:
    """A file to read from, whose contents are digested on the way."""

    def __init__(self, file: MeteredFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._file.read(size)
        self._sha256.update(chunk)
        return chunk

    def digest(self) -> str:
        """Return the SHA-256 of what was read."""
        return self._sha256.hexdigest()


# Files that are being made


_FOLDER = ".parts"
_FILE = ".segue-part"
_LOCK = "lock"


class StagingFolder:
    """A private folder in `place` for the parts of a backup; `parts` is empty at first."""

    def __init__(self, place: Path, purpose: str) -> None:
        remove_leftovers(place)
        try:
            self._make(place, purpose)
        except OSError as error:
            raise errors.backup_unwritable(place, error.strerror or error) from error

    def _make(self, place: Path, purpose: str) -> None:
        while True:
            self._folder = Path(tempfile.mkdtemp(prefix=f".{purpose}-", suffix=_FOLDER, dir=place))
            fd = _locked(self._folder / _LOCK)
            if fd is not None:
                break
        self._fd = fd
        self.parts = self._folder / "parts"
        self.parts.mkdir(0o700)

    def remove(self) -> None:
        """Remove the folder. What cannot be removed now is a leftover."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._fd)


@contextlib.contextmanager
def part_of(path: Path) -> Generator[tuple[Path, IO[bytes]]]:
    """Open a new private file beside `path` for writing. Yield its name too. The caller gives it
    the name `path`; otherwise it is removed."""
    remove_leftovers(path.parent)
    while True:
        part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}{_FILE}")
        fd = _locked(part)
        if fd is not None:
            break
    with os.fdopen(fd, "wb") as file:
        try:
            yield part, file
        finally:
            part.unlink(missing_ok=True)


def remove_leftovers(place: Path) -> None:
    """Remove what programs that were killed left in the folder."""
    for folder in place.glob(f".*-*{_FOLDER}"):
        _remove_leftover(folder, folder / _LOCK)
    for file in place.glob(f".*{_FILE}"):
        _remove_leftover(file, file)


def _remove_leftover(path: Path, lock: Path) -> None:
    with contextlib.suppress(OSError):  # its maker lives, or it is another user's
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return
        fd = files.open_file(lock)
        try:
            if not locks.try_lock(fd) or not _is_named(fd, lock):
                return
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            os.close(fd)


def _locked(path: Path) -> int | None:
    """Make and lock a file. Return None if another process took it for a leftover."""
    try:
        fd = files.open_file(path)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # a file system without locks: no leftover is found on it
        locks.lock(fd)
    if _is_named(fd, path):
        return fd
    os.close(fd)
    return None


def _is_named(fd: int, path: Path) -> bool:
    """Return whether the open file still has this name."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


# The archive


FORMAT = 1
MANIFEST = "manifest.json"
_ENCRYPTED = b"age-encryption.org/v1"
_NAME = re.compile(r"[^/\0]+(/[^/\0]+)*")


class StoreContents(Struct, frozen=True, kw_only=True):
    """What the users made and did, in figures to compare."""

    digest: str
    """Of sessions, notes, jobs, settings of chats and the like. Equal for equal ones."""
    messages: int
    things: int
    """Sessions, notes and jobs that are there."""
    made: int
    """Those that were ever made, even if they are deleted."""


class StoreState(Struct, frozen=True, kw_only=True):
    """What a store holds, as far as two can be compared."""

    engine: str
    """`sqlite` or `postgres`."""
    schema: int
    newest: int
    """The newest time in it, in microseconds since 1970; 0 if it is empty."""
    sessions: int
    contents: StoreContents | None = None
    """None in the backups of older versions."""


class ArchivedFile(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    format: int
    program: str
    """The version of Segue that made it."""
    made: datetime
    store: StoreState
    files: tuple[ArchivedFile, ...]


def write(
    folder: Path,
    path: Path,
    store: StoreState,
    made: datetime,
    passphrase: str,
    progress: Progress = ignore_progress,
) -> Manifest:
    """Make the backup `path` of all files in `folder`. Raise UserError if it exists, or an OSError.

    With a passphrase, nothing that is not encrypted is written beside `path`.
    """
    names = sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    size = sum((folder / name).stat().st_size for name in names)
    meter = CopyMeter(2 * size, progress)  # each file is read for its checksum, and again
    manifest = Manifest(
        format=FORMAT,
        program=segue.__version__,
        made=made,
        store=store,
        files=tuple(_described(folder, name, meter) for name in names),
    )
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    with part_of(path) as (part, file):
        if passphrase:
            plain = io.BytesIO()
            _pack(plain, folder, manifest, meter)
            file.write(_encrypt(plain.getvalue(), passphrase))
        else:
            _pack(file, folder, manifest, meter)
        files.sync(file)
        _give_name(part, path)
    files.sync_folder(path.parent)
    return manifest


def _pack(file: IO[bytes], folder: Path, manifest: Manifest, meter: CopyMeter) -> None:
    """Write the tar. Raise an OSError if a part is not what the manifest says."""
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder / MANIFEST, MANIFEST, filter=_anonymous)
        for described in manifest.files:
            path = folder / described.name
            entry = _anonymous(tar.gettarinfo(path, described.name))
            with path.open("rb") as opened:
                read = DigestedFile(MeteredFile(opened, meter))
                tar.addfile(entry, read)
            if (entry.size, read.digest()) != (described.size, described.sha256):
                raise OSError(f"{described.name} has changed meanwhile")


def _give_name(part: Path, path: Path) -> None:
    """Give a file the name `path`, which must be free: a link that leads nowhere has it too."""
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise errors.backup_exists(path) from error
    except OSError as error:  # files cannot have two names here
        if os.path.lexists(path):
            raise errors.backup_exists(path) from error
        part.rename(path)


def _described(folder: Path, name: str, meter: CopyMeter) -> ArchivedFile:
    path = folder / name
    digest = hashlib.sha256()
    with path.open("rb") as opened:
        for chunk in MeteredFile(opened, meter).chunks():
            digest.update(chunk)
    return ArchivedFile(name=name, size=path.stat().st_size, sha256=digest.hexdigest())


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o600
    entry.mtime = int(entry.mtime)
    return entry


def is_encrypted(path: Path) -> bool:
    """Return whether the backup needs a passphrase, or raise UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ENCRYPTED)) == _ENCRYPTED
    except OSError as error:
        raise UserError(
            f"The backup {path} cannot be read: {error.strerror or error}. Nothing was changed."
            " Check its name."
        ) from error


def unpack(
    path: Path, folder: Path, passphrase: str = "", progress: Progress = ignore_progress
) -> Manifest:
    """Put the files of a backup into `folder`, checked one by one. Raise UserError if the
    backup is not whole, or is newer than this program."""
    if is_encrypted(path):
        if not passphrase:
            raise errors.backup_encrypted(path)
        opened: IO[bytes] = io.BytesIO(_decrypt(path, passphrase))
    else:
        opened = path.open("rb")
    with opened:
        try:
            with tarfile.open(fileobj=opened, mode="r:") as tar:
                return _unpacked(tar, path, folder, progress)
        except tarfile.TarError as error:
            raise _not_whole(path, opened) from error


def _not_whole(path: Path, opened: IO[bytes]) -> Exception:
    opened.seek(0)
    if MANIFEST.encode() == opened.read(len(MANIFEST)):
        return errors.backup_damaged(path, "it ends too early")
    return errors.not_a_backup(path)


def _unpacked(tar: tarfile.TarFile, path: Path, folder: Path, progress: Progress) -> Manifest:
    first = tar.next()
    opened = tar.extractfile(first) if first and first.name == MANIFEST else None
    if opened is None:
        raise errors.not_a_backup(path)
    manifest = _manifest(opened.read(), path)
    wanted = {file.name: file for file in manifest.files}
    meter = CopyMeter(sum(file.size for file in manifest.files), progress)
    found: set[str] = set()
    while entry := tar.next():
        opened = tar.extractfile(entry) if entry.isreg() else None
        file = wanted.get(entry.name)
        if opened is None or file is None or not _is_inside(entry.name):
            raise errors.backup_damaged(path, f"{entry.name!r} does not belong in it")
        _extract(MeteredFile(opened, meter), file, folder / entry.name, path)
        found.add(entry.name)
    if missing := sorted(wanted.keys() - found):
        raise errors.backup_damaged(path, f"{missing[0]} is missing")
    return manifest


def _manifest(raw: bytes, path: Path) -> Manifest:
    try:
        known = msgspec.json.decode(raw, type=Mapping[str, object])
        if isinstance(number := known.get("format"), int) and number > FORMAT:
            raise errors.backup_newer(path, known.get("program"))
        manifest = msgspec.json.decode(raw, type=Manifest)
    except msgspec.MsgspecError as error:
        raise errors.backup_damaged(path, "its manifest cannot be read") from error
    if manifest.store.schema > database.LATEST:
        raise errors.backup_newer(path, manifest.program)
    return manifest


def _is_inside(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not {".", ".."} & set(name.split("/"))


def _extract(opened: MeteredFile, file: ArchivedFile, target: Path, path: Path) -> None:
    digest = hashlib.sha256()
    files.make_folder(target.parent)
    with os.fdopen(files.open_file(target), "wb") as copy:
        for chunk in opened.chunks():
            digest.update(chunk)
            copy.write(chunk)
        files.sync(copy)
    if (target.stat().st_size, digest.hexdigest()) != (file.size, file.sha256):
        raise errors.backup_damaged(path, f"the checksum of {file.name} is wrong")


# Encryption


def require_encryption() -> None:
    """Raise UserError if backups cannot be encrypted."""
    _age()


def _age() -> Any:
    try:
        import pyrage  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(
            "Encrypted backups need a package that is not installed. Type `make extra NAME=backup`"
            " in the project folder."
        ) from error
    return pyrage


def _encrypt(plain: bytes, passphrase: str) -> bytes:
    return _age().passphrase.encrypt(plain, passphrase)


def _decrypt(path: Path, passphrase: str) -> bytes:
    age = _age()
    try:
        return age.passphrase.decrypt(path.read_bytes(), passphrase)
    except age.DecryptError as error:
        raise UserError(
            f"The backup {path} cannot be decrypted: the passphrase is wrong, or the file is"
            " damaged. Nothing was changed. Try again."
        ) from error


def unwritable(error: OSError, path: Path) -> UserError:
    return errors.backup_unwritable(path, error.strerror or error)
