-- A report goes to the thread of its session at once, also while a terminal has the session open.
-- Only the holder appends, so the session's next turn appends the report.

ALTER TABLE reports ADD COLUMN aside TEXT;                       -- that session's id
ALTER TABLE reports ADD COLUMN sent_body TEXT;                   -- what was sent
ALTER TABLE reports ADD COLUMN placed $int NOT NULL DEFAULT 0;   -- whether it is appended
CREATE INDEX reports_aside ON reports (aside) WHERE aside IS NOT NULL;
