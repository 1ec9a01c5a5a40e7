-- What the agent needs to keep: pictures in messages, how much of what came before a summary is still
-- shown word for word, notes about an owner, approvals for a session.

ALTER TABLE messages ADD COLUMN images TEXT;
ALTER TABLE messages ADD COLUMN keeps $int NOT NULL DEFAULT 0;

ALTER TABLE owners ADD COLUMN last_note $int NOT NULL DEFAULT 0;   -- the highest number given

CREATE TABLE notes (
    owner   TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    number  $int NOT NULL,
    text    TEXT NOT NULL,
    written $int NOT NULL,
    PRIMARY KEY (owner, number)
) $strict;

CREATE TABLE grants (
    session_no  $int NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    granted     $int NOT NULL,
    PRIMARY KEY (session_no, fingerprint)
) $strict;
