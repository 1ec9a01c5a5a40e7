-- Who wrote each message, as a list: owner,stranger. Unknown counts as from outside, so a process of
-- an earlier version that still writes is on the safe side.

ALTER TABLE messages ADD COLUMN provenance TEXT NOT NULL DEFAULT 'unknown';
UPDATE messages SET provenance = CASE role
    WHEN 'assistant' THEN 'agent'
    WHEN 'tool' THEN 'tool'
    WHEN 'user' THEN CASE
        WHEN kind <> 'said' THEN 'unknown'  -- the prompt of a job, with what its condition saw
        WHEN images IS NOT NULL THEN 'owner,file'
        WHEN content LIKE '[The user forwarded this.%' THEN 'unknown'
        WHEN content LIKE '[The user replies to this message.%' THEN 'owner,unknown'
        WHEN content LIKE '%[attached file: %' THEN 'owner,file'
        ELSE 'owner' END
    ELSE 'unknown' END;

-- Notes may have been kept without asking, when a session ended.
ALTER TABLE notes ADD COLUMN provenance TEXT NOT NULL DEFAULT 'unknown';

-- Jobs were typed or approved.
ALTER TABLE jobs ADD COLUMN provenance TEXT NOT NULL DEFAULT 'unknown';
UPDATE jobs SET provenance = 'owner,agent';

ALTER TABLE reports ADD COLUMN provenance TEXT NOT NULL DEFAULT 'unknown';
