-- The built-in page is a platform whose server we are: its browsers, its conversations, what is
-- shown in them, and what people did there that the gateway has not confirmed yet.

CREATE TABLE browsers (
    id     TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,                -- of the secret in its cookie
    made   $int NOT NULL,
    seen   $int NOT NULL
) $strict;

CREATE TABLE pages (
    id      TEXT PRIMARY KEY,
    owner   TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    title   TEXT NOT NULL,
    key     TEXT NOT NULL UNIQUE,
    rev     $int NOT NULL DEFAULT 0,            -- the newest change in it
    active  $int NOT NULL,
    session TEXT                                -- the one that is or was here last
) $strict;
CREATE INDEX pages_by_owner ON pages (owner, active);

CREATE TABLE page_messages (
    no      $serial,
    page    TEXT NOT NULL REFERENCES pages (id) ON DELETE CASCADE,
    key     TEXT NOT NULL UNIQUE,
    rev     $int NOT NULL,
    author  TEXT NOT NULL CHECK (author IN ('agent', 'person')),
    text    TEXT NOT NULL,
    buttons TEXT,
    at      $int NOT NULL
) $strict;
CREATE INDEX page_messages_by_rev ON page_messages (page, rev);

CREATE TABLE page_updates (
    no      $serial,
    page    TEXT NOT NULL REFERENCES pages (id) ON DELETE CASCADE,
    key     TEXT NOT NULL UNIQUE,
    browser TEXT NOT NULL,
    kind    TEXT NOT NULL CHECK (kind IN ('say', 'press')),
    text    TEXT NOT NULL,
    message $int NOT NULL,
    heard   $int NOT NULL DEFAULT 0
) $strict;
CREATE INDEX page_updates_waiting ON page_updates (no) WHERE heard = 0;
