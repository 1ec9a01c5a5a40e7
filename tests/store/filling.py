# ruff: noqa: ISC004 - each statement is one entry
"""Fills a store with rows that look like those of a store in use, by SQL that both databases
understand. Most messages are old and answered; a few of everything are waiting."""

from __future__ import annotations

from collections.abc import Callable

_COUNT = (
    "WITH RECURSIVE n(i) AS"
    " (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
)
_SESSION_ID = "'20250101_000000_' || substr(CAST(100000000 + {0} AS TEXT), 2)"
_BEGIN = 1_735_700_000_000_000
"""Microseconds since 1970: the first of January 2025."""
_MINUTE = 60_000_000


def fill(
    execute: Callable[[str], object], *, sessions: int, messages: int = 10, now: int = 0
) -> None:
    """Insert so many sessions, with so many messages each, and what belongs to them. `now` is the
    time of the newest rows, in microseconds since 1970."""
    newest = now or _BEGIN + sessions * 10 * _MINUTE
    for sql in _statements(sessions, messages, newest):
        execute(sql)


def _statements(sessions: int, messages: int, newest: int) -> list[str]:
    owners = max(sessions // 10, 10)
    chats = max(sessions // 2, 10)
    id_of = _SESSION_ID.format
    # Nine of ten sessions are those of one owner.
    owner = f"CASE WHEN i % 10 > 0 THEN 'me' ELSE 'owner' || ((i / 10) % {owners}) END"
    at = f"{newest} - ({sessions} - i) * {_MINUTE}"
    old = newest - 30 * 24 * 60 * _MINUTE
    topic = "'agent:main:telegram:group:-100200:' || i"
    dm = f"'agent:main:telegram:dm:' || (i % {chats})"
    thread = "'agent:main:slack:channel:C' || (i % 50) || ':' || i"
    page = "'agent:main:web:dm:me:' || i"

    def insert(count: int, table: str, columns: str, values: str, where: str = "true") -> str:
        rows = f"SELECT {values} FROM n WHERE {where}"
        return f"{_COUNT.format(count=count)} INSERT INTO {table} ({columns}) {rows}"

    each = f"n, (SELECT i AS k FROM n WHERE i <= {messages}) AS each"
    return [
        insert(owners, "owners", "id, name, created", f"'owner' || (i - 1), 'Owner', {newest}"),
        f"INSERT INTO owners (id, name, created) VALUES ('me', 'Me', {_BEGIN})"
        " ON CONFLICT DO NOTHING",
        insert(
            owners,
            "identities",
            "platform, user_id, owner, name, linked",
            f"'telegram', CAST(i AS TEXT), 'owner' || (i - 1), 'Owner', {newest}",
        ),
        insert(
            owners,
            "homes",
            "owner, platform, address, name",
            "'owner' || (i - 1), 'telegram', 'agent:main:telegram:dm:' || i, ''",
        ),
        insert(
            sessions,
            "sessions",
            "id, owner, source, title, title_chosen, lineage, lineage_no, started, active, ended,"
            " end_reason, last_seq, indexed_seq, epoch, holder, process, lease_until",
            f"{id_of('i')}, {owner},"
            " CASE i % 3 WHEN 0 THEN 'telegram' WHEN 1 THEN 'slack' ELSE 'local' END,"
            " CASE WHEN i % 2 = 0 THEN 'roses ' || i END, 1,"
            " CASE WHEN i % 2 = 0 THEN 'roses ' || i END, CASE WHEN i % 2 = 0 THEN 1 END,"
            f" {at}, {at}, CASE WHEN i % 5 = 0 THEN {at} END,"
            f" CASE WHEN i % 5 = 0 THEN 'idle' END, {messages}, {messages}, 1,"
            f" CASE WHEN i > {sessions - 5} AND i % 5 > 0 THEN 'a gateway' END,"
            f" CASE WHEN i > {sessions - 5} AND i % 5 > 0 THEN 'desk-1-gone' END,"
            f" CASE WHEN i > {sessions - 5} AND i % 5 > 0 THEN 1 END",
        ),
        f"{_COUNT.format(count=sessions)} INSERT INTO messages (id, role, kind, content, tokens,"
        " at) SELECT i * 4294967296 + k, CASE k % 2 WHEN 1 THEN 'user' ELSE 'assistant' END,"
        f" 'said', 'water the roses number ' || i, 10, {at} FROM {each}",
        insert(
            sessions,
            "doors",
            "address, session_no, platform, opened, seq",
            f"CASE i % 3 WHEN 0 THEN {topic} WHEN 1 THEN {thread} ELSE {page} END, i,"
            f" CASE i % 3 WHEN 0 THEN 'telegram' WHEN 1 THEN 'slack' ELSE 'web' END, {at}, 1",
        ),
        insert(
            sessions,
            "bindings",
            "address, session_no, origin, version, bound",
            f"CASE i % 3 WHEN 0 THEN {topic} WHEN 1 THEN {thread} ELSE {page} END, i,"
            f" CASE i % 8 WHEN 0 THEN 'message' ELSE 'handoff' END, 1, {at}",
            "i % 4 = 0",
        ),
        insert(
            sessions,
            "moves",
            "session_no, seq, address, at",
            f"i, 1, {topic}, {at}",
        ),
        insert(
            sessions,
            "handoffs",
            "session_no, key, platform, epoch, seq, state, claim_by, requested, claimed, finished,"
            " process, thread",
            f"i, 'h' || i, 'telegram', 1, 1, 'completed', 0, {at}, {at}, {at}, 'gone', {topic}",
            "i % 3 = 0",
        ),
        # The last update of each chat is kept, however old it is.
        insert(
            chats,
            "inbox",
            "platform, account, update_id, address, body, received, finished, session_id,"
            " message_id",
            f"'telegram', 'bot', 'u' || i, {dm}, 'water the roses', {old} + i, {old} + i,"
            f" {id_of('i')}, CAST(i AS TEXT)",
        ),
        insert(
            sessions,
            "inbox",
            "platform, account, update_id, address, body, received, finished, session_id,"
            " message_id",
            f"'telegram', 'bot', 'v' || i, 'agent:main:telegram:dm:' || (i % 40), 'water',"
            f" {newest} - {sessions} + i, CASE WHEN i < {sessions - 20} THEN {newest} END,"
            f" CASE WHEN i < {sessions - 20} THEN {id_of('i')} END, 'm' || i",
        ),
        insert(
            sessions * 2,
            "outbox",
            "key, platform, address, session_id, body, state, queued, finished, receipts, buttons,"
            " reported, error",
            f"'k' || i, 'telegram', 'agent:main:telegram:dm:' || (i % {chats}), {id_of('i')},"
            f" 'watered', CASE WHEN i > {sessions * 2 - 20} THEN 'queued'"
            " WHEN i % 50 = 0 THEN 'failed' WHEN i % 50 = 1 THEN 'uncertain' ELSE 'sent' END,"
            f" {newest} - {sessions * 2} + i,"
            f" CASE WHEN i <= {sessions * 2 - 20} THEN {newest} - {sessions * 2} + i END,"
            " '\n\"' || i || '\"', CASE WHEN i % 20 = 0 THEN '[[\"Yes\",\"y\"]]' END,"
            " 1, CASE WHEN i % 50 = 0 THEN 'The chat is gone.' END",
        ),
        insert(
            sessions,
            "approvals",
            "session_no, call_id, fingerprint, what, address, asked, until, state, answer",
            f"i, 'call', '0badcafe', 'rm roses', {topic}, {at}, 1, 'used', 'once'",
        ),
        insert(sessions, "grants", "session_no, fingerprint, granted", f"i, 'f' || i, {at}"),
        insert(
            owners, "notes", "owner, number, text, written", "'owner' || (i - 1), 1, 'roses', 1"
        ),
        insert(
            sessions,
            "pages",
            "id, owner, title, key, rev, active, session",
            f"'p' || i, {owner}, 'roses', 'page' || i, 2, {at}, {id_of('i')}",
        ),
        insert(
            sessions,
            "page_messages",
            "page, key, rev, author, text, at, session, after_seq, seq",
            f"'p' || i, 'pm' || i, 1, 'person', 'roses', {at}, {id_of('i')}, 1, 1",
        ),
        insert(
            sessions,
            "page_updates",
            "page, key, browser, kind, text, message, heard",
            f"'p' || i, 'pu' || i, 'b1', 'say', 'roses', i, CASE WHEN i < {sessions} THEN 1"
            " ELSE 0 END",
        ),
        insert(
            owners * 10,
            "jobs",
            "owner, name, prompt, kind, at, zone, verbatim, deliver, state, due, created,"
            " session_id",
            f"'owner' || (i % {owners}), 'water', 'water', 'once', {newest}, 'UTC', 0, 'local',"
            f" CASE WHEN i % 10 = 0 THEN 'enabled' ELSE 'done' END,"
            f" CASE WHEN i % 10 = 0 THEN {newest} * 2 END, {newest}, {id_of('i')}",
        ),
        insert(
            owners * 100,
            "runs",
            "job_id, due, state, started, finished",
            f"1 + i % {owners * 10}, i, 'silent', {old} - i, {old} - i",
        ),
        insert(
            owners * 100,
            "reports",
            "run_id, target, address, body, state, key, made, passed_on",
            f"i, 'telegram', {dm}, 'watered', 'queued', 'k' || i, {old} - i, 1",
        ),
        "UPDATE doors SET chat = CASE platform WHEN 'telegram'"
        " THEN 'agent:main:telegram:group:-100200' ELSE address END",
        "UPDATE sessions SET is_bound = 1, platform = source, reset_kind = CASE no % 8"
        " WHEN 0 THEN 'telegram:group' END WHERE no IN (SELECT session_no FROM bindings)",
        "INSERT INTO last_updates (address, account, platform, chat, no, update_id, received)"
        " SELECT address, account, platform, address, no, update_id, received FROM inbox"
        " WHERE no IN (SELECT max(no) FROM inbox GROUP BY address)",
    ]
