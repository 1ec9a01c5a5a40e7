-- Lists and searches whose cost does not grow with the store.

-- Where the session is now or, if it is set aside, where it began.
ALTER TABLE sessions ADD COLUMN platform TEXT NOT NULL DEFAULT '';
UPDATE sessions SET platform = coalesce((
    SELECT CASE
        WHEN address LIKE 'agent:main:local:%' THEN 'local'
        WHEN address LIKE 'agent:main:web:%' THEN 'web'
        WHEN address LIKE 'agent:main:telegram:%' THEN 'telegram'
        WHEN address LIKE 'agent:main:discord:%' THEN 'discord'
        WHEN address LIKE 'agent:main:slack:%' THEN 'slack'
        WHEN address LIKE 'agent:main:matrix:%' THEN 'matrix'
        WHEN address LIKE 'agent:main:whatsapp:%' THEN 'whatsapp'
        WHEN address LIKE 'agent:main:signal:%' THEN 'signal'
    END FROM bindings WHERE session_no = sessions.no), source);
CREATE INDEX sessions_by_platform ON sessions (owner, platform, active);
CREATE INDEX sessions_ended ON sessions (owner, active) WHERE ended IS NOT NULL;

-- For the beginning of an id: $binary sorts by character codes, whatever the database's language.
CREATE INDEX sessions_by_id ON sessions (owner, id $binary);

-- How many sessions there are: the sum. Sessions that are created at the same time have different
-- shards, so that their transactions do not wait for each other.
CREATE TABLE session_counts (
    shard    $key,
    sessions $int NOT NULL
) $strict;
INSERT INTO session_counts (shard, sessions) SELECT no & 15, count(*) FROM sessions GROUP BY no & 15;

-- The sessions with messages that the full-text index does not have yet.
CREATE TABLE unindexed (
    session_no $key REFERENCES sessions (no) ON DELETE CASCADE
) $strict;
INSERT INTO unindexed (session_no) SELECT no FROM sessions WHERE indexed_seq < last_seq;
