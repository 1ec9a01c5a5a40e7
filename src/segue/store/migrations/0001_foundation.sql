-- One schema for both databases. $int is a 64-bit integer, $serial a key that counts up and is
-- never used again, $strict what makes SQLite keep to the types.
-- Times for people are microseconds since 1970; `until`, `claim_by` and `not_before` are ticks.

CREATE TABLE owners (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    created $int NOT NULL
) $strict;

CREATE TABLE identities (
    platform TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    owner    TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    name     TEXT NOT NULL,
    linked   $int NOT NULL,
    PRIMARY KEY (platform, user_id)
) $strict;

CREATE TABLE homes (
    owner    TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    platform TEXT NOT NULL,
    address  TEXT NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (owner, platform)
) $strict;

CREATE TABLE sessions (
    no            $serial,
    id            TEXT NOT NULL UNIQUE,
    owner         TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    source        TEXT NOT NULL,
    parent        TEXT,
    title         TEXT,
    title_chosen  $int NOT NULL DEFAULT 0,
    lineage       TEXT,
    lineage_no    $int,
    cwd           TEXT,
    model         TEXT,
    input_tokens  $int NOT NULL DEFAULT 0,
    output_tokens $int NOT NULL DEFAULT 0,
    cached_tokens $int NOT NULL DEFAULT 0,
    started       $int NOT NULL,
    active        $int NOT NULL,
    ended         $int,
    end_reason    TEXT,
    last_seq      $int NOT NULL DEFAULT 0,
    summary_seq   $int NOT NULL DEFAULT 0,   -- where the model's window starts
    indexed_seq   $int NOT NULL DEFAULT 0,   -- how far the full-text index has come
    epoch         $int NOT NULL DEFAULT 0,   -- the lease: who may append
    holder        TEXT,
    process       TEXT,
    lease_until   $int,
    CHECK ((holder IS NULL) = (process IS NULL) AND (holder IS NULL) = (lease_until IS NULL)),
    CHECK ((ended IS NULL) = (end_reason IS NULL)),
    CHECK ((title IS NULL) = (lineage IS NULL) AND (title IS NULL) = (lineage_no IS NULL))
) $strict;
CREATE UNIQUE INDEX sessions_by_title ON sessions (owner, lineage, lineage_no)
    WHERE title IS NOT NULL;
CREATE INDEX sessions_by_activity ON sessions (owner, active);

-- id = session's no << 32 | seq: one key, in reading order, with no second index.
CREATE TABLE messages (
    id           $key,
    role         TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    kind         TEXT NOT NULL CHECK (kind IN ('said', 'summary', 'synthetic')),
    content      TEXT NOT NULL,
    tool_calls   TEXT,
    tool_call_id TEXT,
    tool_name    TEXT,
    tokens       $int NOT NULL,
    at           $int NOT NULL,
    extras       TEXT,
    undone       $int NOT NULL DEFAULT 0     -- the last seq at the time of the /undo that hid it
) $strict;

CREATE TABLE bindings (
    address    TEXT PRIMARY KEY,
    session_no $int NOT NULL UNIQUE REFERENCES sessions (no) ON DELETE CASCADE,
    origin     TEXT NOT NULL CHECK (origin IN ('message', 'handoff', 'resume')),
    version    $int NOT NULL,
    bound      $int NOT NULL
) $strict;

CREATE TABLE handoffs (
    id          $serial,
    session_no  $int NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    key         TEXT NOT NULL UNIQUE,
    platform    TEXT NOT NULL,
    home        TEXT,
    message     TEXT,
    epoch       $int NOT NULL,               -- the session as it was when the handoff was asked for
    seq         $int NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('pending', 'running', 'completed', 'failed')),
    attempt     $int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 3),
    fence       $int NOT NULL DEFAULT 0,
    process     TEXT,
    lease_until $int,
    claim_by    $int NOT NULL,
    requested   $int NOT NULL,
    claimed     $int,
    finished    $int,
    step        TEXT,
    thread      TEXT,
    error       TEXT CHECK (length(error) <= 500),
    CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CHECK (state <> 'running' OR (process IS NOT NULL AND claimed IS NOT NULL)),
    CHECK ((state IN ('completed', 'failed')) = (finished IS NOT NULL)),
    CHECK ((state = 'failed') = (error IS NOT NULL))
) $strict;
CREATE UNIQUE INDEX handoffs_in_flight ON handoffs (session_no)
    WHERE state IN ('pending', 'running');
CREATE INDEX handoffs_pending ON handoffs (id) WHERE state = 'pending';
CREATE INDEX handoffs_running ON handoffs (id) WHERE state = 'running';
CREATE INDEX handoffs_by_session ON handoffs (session_no, id);

CREATE TABLE inbox (
    no        $serial,
    platform  TEXT NOT NULL,
    account   TEXT NOT NULL,
    update_id TEXT NOT NULL,
    address   TEXT NOT NULL,
    body      TEXT NOT NULL,
    received  $int NOT NULL,
    finished  $int,
    UNIQUE (platform, account, update_id)
) $strict;
CREATE INDEX inbox_waiting ON inbox (no) WHERE finished IS NULL;

CREATE TABLE outbox (
    no         $serial,
    key        TEXT NOT NULL UNIQUE,
    platform   TEXT NOT NULL,
    address    TEXT NOT NULL,
    session_id TEXT,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'failed', 'uncertain')),
    attempt    $int NOT NULL DEFAULT 0,
    process    TEXT,
    until      $int,
    not_before $int NOT NULL DEFAULT 0,
    receipt    TEXT,
    error      TEXT CHECK (length(error) <= 500),
    queued     $int NOT NULL,
    finished   $int,
    CHECK ((state = 'sending') = (process IS NOT NULL) AND (process IS NULL) = (until IS NULL)),
    CHECK ((state IN ('sent', 'failed', 'uncertain')) = (finished IS NOT NULL))
) $strict;
CREATE INDEX outbox_open ON outbox (address, no) WHERE state IN ('queued', 'sending');
CREATE INDEX outbox_queued ON outbox (no) WHERE state = 'queued';
CREATE INDEX outbox_sending ON outbox (no) WHERE state = 'sending';
CREATE INDEX outbox_troubled ON outbox (no) WHERE state IN ('failed', 'uncertain');

CREATE TABLE gateways (
    process TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    started $int NOT NULL,
    until   $int NOT NULL
) $strict;

-- A platform is served by one gateway at a time.
CREATE TABLE gateway_platforms (
    platform TEXT PRIMARY KEY,
    process  TEXT NOT NULL REFERENCES gateways (process) ON DELETE CASCADE
) $strict;

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) $strict;
