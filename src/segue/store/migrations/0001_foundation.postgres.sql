-- Filled from `sessions.indexed_seq` on when somebody searches; an index on the messages themselves
-- would make appends slow.
CREATE TABLE words (
    id     BIGINT PRIMARY KEY,
    vector TSVECTOR NOT NULL
);
CREATE INDEX words_by_vector ON words USING gin (vector);
