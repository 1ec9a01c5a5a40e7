"""What goes wrong with a store, with a backup and with what is stored, as the user reads it.

Each function is one sentence, which more than one place reports.
"""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.errors import HandoffError, SessionError, StoreError, UserError


def bad_url(url: str) -> StoreError:
    return StoreError(
        f"{url!r} is not a store. Use sqlite:///absolute/path.db or"
        " postgresql://user@host/database."
    )


def folder_missing(folder: object) -> StoreError:
    return StoreError(
        f"The folder {folder} does not exist. Type `mkdir -p -m 700 {folder}`, or set SEGUE_STORE"
        " to another path."
    )


def missing(path: object, marker: object) -> StoreError:
    return StoreError(
        f"The store {path} is missing, but it existed before. Restore it, or remove {marker} to"
        " start with an empty one."
    )


def foreign(path: object) -> StoreError:
    return StoreError(
        f"{path} is not a Segue store. Nothing was changed in it. Set SEGUE_STORE to another path."
    )


def schema_wrong(path: object, found: object, reason: str) -> StoreError:
    return StoreError(
        f"The schema version of the store {path} is {found}, which is not true: {reason}. Nothing"
        " was changed. Type `segue restore FILE` to restore a backup, or set SEGUE_STORE to another"
        " store.",
        reason=reason,
    )


def in_use(path: object, found: int, known: int, running: str, way_out: str) -> StoreError:
    return StoreError(
        f"An older version of Segue uses the store {path}, and cannot use it any more once this"
        f" version has upgraded it (from schema {found} to {known}). Nothing was changed. Stop it,"
        f" then try again. {running} {way_out}."
    )


def corrupt(path: object, reason: str) -> StoreError:
    return StoreError(
        f"The store {path} is damaged: {reason}. Nothing was repaired. Stop Segue, then type"
        " `segue restore FILE` to restore a backup; the damaged store is kept.",
        reason=reason,
    )


def read_only(path: object, reason: str) -> StoreError:
    return StoreError(
        f"The store {path} cannot be written: {reason}. Make the file and its folder writable for"
        " you, or set SEGUE_STORE to another path.",
        reason=reason,
    )


def full(path: object, reason: str = "") -> StoreError:
    return StoreError(
        f"No space is left for the store {path}. Everything saved so far is intact. Free some"
        " space, then try again.",
        reason=reason,
    )


def busy(path: object, reason: str = "") -> StoreError:
    return StoreError(
        f"Another program has kept the store {path} locked for too long. Close that program, then"
        " try again.",
        reason=reason,
    )


def unreachable(path: object, reason: str) -> StoreError:
    return StoreError(
        f"The database {path} does not answer: {reason}. Check that it is running, and that the"
        " address and the password are right.",
        reason=reason,
    )


def failed(path: object, reason: str) -> StoreError:
    return StoreError(
        f"The store {path} failed: {reason}. The last step was not saved. Try it again.",
        reason=reason,
    )


# Backups


def backup_exists(path: object) -> UserError:
    return UserError(f"{path} exists already. Nothing was changed. Give another name.")


def backup_unwritable(path: object, reason: object) -> UserError:
    return UserError(
        f"The backup {path} cannot be written: {reason}. Nothing was changed. Free some space, or"
        " name a file in a folder that you can write to."
    )


def backup_encrypted(path: object) -> UserError:
    return UserError(
        f"The backup {path} is encrypted, and there is no terminal to ask for its passphrase. Send"
        " it to standard input."
    )


def not_a_backup(path: object) -> UserError:
    return UserError(
        f"{path} is not a backup of Segue. Nothing was changed. Give the name of a file that"
        " `segue backup` made."
    )


def backup_damaged(path: object, reason: str) -> UserError:
    return UserError(
        f"The backup {path} is damaged: {reason}. Nothing was changed. Use another one, or copy it"
        " again from where you keep it."
    )


def backup_newer(path: object, program: object) -> UserError:
    return UserError(
        f"The backup {path} was made by a newer version of Segue ({program}). Nothing was changed."
        " Update Segue, then try again."
    )


def nothing_to_back_up(store: str) -> UserError:
    return UserError(
        f"There is no store at {store} yet. Start a conversation first, or set SEGUE_STORE."
    )


# Sessions, handoffs and messages


def being_handed_off() -> SessionError:
    return SessionError(
        "A handoff of this session is in progress. Wait for it to finish, or press Ctrl-C in the"
        " terminal that started it."
    )


def handoff_in_flight(platform: Platform) -> HandoffError:
    return HandoffError(
        f"This session is already being handed off to {platform}. Wait for that to finish, or press"
        " Ctrl-C in the terminal that started it."
    )


def being_answered() -> SessionError:
    return SessionError("That message is already being answered. Wait for the answer.")


def message_too_long(size: int, limit: int) -> UserError:
    return UserError(
        f"That message has {size:,} bytes; the limit is {limit:,}. Send it as a file, or in parts."
    )
