-- The page shows sessions. Each arrival of a session at a place: `seq` is the last message before it.

CREATE TABLE moves (
    no         $serial,
    session_no $int NOT NULL REFERENCES sessions (no) ON DELETE CASCADE,
    seq        $int NOT NULL,
    address    TEXT NOT NULL,
    at         $int NOT NULL
) $strict;
CREATE INDEX moves_by_session ON moves (session_no, no);

-- How often messages of the session were undone or restored.
ALTER TABLE sessions ADD COLUMN edits $int NOT NULL DEFAULT 0;

-- A message on the page belongs to a session and stands after its message `after_seq`: NULL while it
-- waits to be answered. `seq` is the message of the transcript that shows the same (0: a move does).
ALTER TABLE page_messages ADD COLUMN session TEXT;
ALTER TABLE page_messages ADD COLUMN after_seq $int;
ALTER TABLE page_messages ADD COLUMN seq $int;
CREATE INDEX page_messages_by_session ON page_messages (session, after_seq);
CREATE INDEX pages_by_session ON pages (session);

-- Of the messages from before, the transcript shows what matters. Open questions stay.
UPDATE page_messages SET
    session = (SELECT p.session FROM pages p WHERE p.id = page_messages.page),
    after_seq = coalesce((SELECT s.last_seq FROM pages p JOIN sessions s ON s.id = p.session
                          WHERE p.id = page_messages.page), 0),
    seq = CASE WHEN buttons IS NULL THEN 0 END;
