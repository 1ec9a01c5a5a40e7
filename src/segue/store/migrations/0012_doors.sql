-- The places that were opened for a session. `seq` is the session's last message when it left.

CREATE TABLE doors (
    address    TEXT PRIMARY KEY,
    session_no $int NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    platform   TEXT NOT NULL,
    opened     $int NOT NULL,
    seq        $int
) $strict;
CREATE INDEX doors_by_session ON doors (session_no, platform, opened);

-- Whether the user wants a new thread, and whether a turn that has begun moves with the session.
ALTER TABLE handoffs ADD COLUMN new_thread $int NOT NULL DEFAULT 0;
ALTER TABLE handoffs ADD COLUMN mid_turn $int NOT NULL DEFAULT 0;
