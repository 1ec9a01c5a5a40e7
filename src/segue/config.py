"""Settings: the only reader of files and environment that are not the store's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import platformdirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the person decided, and what follows where they did not."""

    store: str
    """Where conversations are kept: `sqlite:///absolute/path.db` or `postgresql://…`."""


def load() -> Settings:
    """The settings as they are now. `SEGUE_STORE` names another store."""
    return Settings(store=os.environ.get("SEGUE_STORE") or _default_store())


def _default_store() -> str:
    """A file in the person's own data folder, which is made, for them alone, if need be."""
    folder = Path(platformdirs.user_data_dir("segue", appauthor=False))
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    return f"sqlite://{quote(str(folder / 'segue.db'))}"
