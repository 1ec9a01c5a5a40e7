-- A session that is to move as soon as its turn reaches a safe point. `process` waits for it.

CREATE TABLE wishes (
    session_no $int PRIMARY KEY REFERENCES sessions (no) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    process    TEXT NOT NULL,
    home       TEXT NOT NULL,
    message    TEXT,
    new_thread $int NOT NULL,
    now        $int NOT NULL
) $strict;
