-- What the gateway needs to keep: how far a message was sent, what it asks a person and what they
-- answered, codes for pairing, what it has taken in hand, and how its platforms are.
-- $json makes a text into a JSON string.

ALTER TABLE owners ADD COLUMN introduced $int NOT NULL DEFAULT 0;

ALTER TABLE handoffs ADD COLUMN reply TEXT;

ALTER TABLE inbox ADD COLUMN session_id TEXT;   -- where it was said, once it was
DROP INDEX inbox_waiting;
CREATE INDEX inbox_waiting ON inbox (platform, no) WHERE finished IS NULL;

-- `receipts` are JSON strings, one a line: one more can be added without reading the others.
ALTER TABLE outbox ADD COLUMN receipts TEXT NOT NULL DEFAULT '';
UPDATE outbox SET receipts = CAST($json(receipt) AS TEXT) WHERE receipt <> '';
ALTER TABLE outbox DROP COLUMN receipt;
ALTER TABLE outbox ADD COLUMN buttons TEXT;
ALTER TABLE outbox ADD COLUMN reported $int NOT NULL DEFAULT 0;

-- The messages that a running turn is still rewriting. One without a receipt is being sent.
CREATE TABLE bubbles (
    platform   TEXT NOT NULL,
    address    TEXT NOT NULL,
    key        TEXT NOT NULL DEFAULT '',
    body       TEXT NOT NULL DEFAULT '',
    receipt    TEXT NOT NULL DEFAULT '',
    session_id TEXT,
    PRIMARY KEY (platform, address)
) $strict;

CREATE TABLE approvals (
    id          $serial,
    session_no  $int NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    call_id     TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    what        TEXT NOT NULL,
    address     TEXT NOT NULL,
    asked       $int NOT NULL,
    until       $int NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'used', 'void', 'expired')),
    answer      TEXT CHECK (answer IN ('once', 'session', 'never')),
    CHECK (state NOT IN ('waiting', 'expired') OR answer IS NULL),
    CHECK (state NOT IN ('answered', 'used') OR answer IS NOT NULL)
) $strict;
CREATE INDEX approvals_by_session ON approvals (session_no, id);
CREATE INDEX approvals_waiting ON approvals (address, id) WHERE state = 'waiting';

-- Only a digest of each code: whoever reads this table can pair nobody.
CREATE TABLE pairings (
    no     $serial,
    digest TEXT NOT NULL UNIQUE,
    owner  TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    until  $int NOT NULL
) $strict;

ALTER TABLE gateway_platforms ADD COLUMN state TEXT NOT NULL DEFAULT 'connecting'
    CHECK (state IN ('connecting', 'connected', 'down'));
ALTER TABLE gateway_platforms ADD COLUMN detail TEXT NOT NULL DEFAULT '';
ALTER TABLE gateway_platforms ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE gateway_platforms ADD COLUMN link TEXT;
ALTER TABLE gateway_platforms ADD COLUMN since $int NOT NULL DEFAULT 0;
