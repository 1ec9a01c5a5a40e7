-- Filled from `sessions.indexed_seq` on when somebody searches; an index on the messages themselves
-- would make appends slow.
CREATE TABLE words (
    id     BIGINT PRIMARY KEY,
    vector TSVECTOR NOT NULL
);
CREATE INDEX words_by_vector ON words USING gin (vector);

-- The last write of each connection: how one learns what became of a COMMIT whose answer was lost.
-- A transaction's own number does not tell, because a server that crashed gives it out again.
CREATE TABLE commits (
    slot TEXT PRIMARY KEY,
    last BIGINT NOT NULL,
    at   BIGINT NOT NULL
);
