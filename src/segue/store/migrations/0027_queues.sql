-- What a gateway does again and again must cost the same in a large store: each of its questions has
-- an index that holds little more than the answer.

-- The kind of chat whose reset policy may end the session, such as telegram:dm. NULL if it is in no
-- chat, or a handoff brought it there.
ALTER TABLE sessions ADD COLUMN reset_kind TEXT;
UPDATE sessions SET reset_kind = (
    SELECT p.name || ':' || t.name FROM bindings b
    JOIN (SELECT 'web' AS name UNION SELECT 'telegram' UNION SELECT 'discord' UNION SELECT 'slack'
          UNION SELECT 'matrix' UNION SELECT 'whatsapp' UNION SELECT 'signal') p ON true
    JOIN (SELECT 'dm' AS name UNION SELECT 'group' UNION SELECT 'channel' UNION SELECT 'thread') t
    ON b.address LIKE 'agent:main:' || p.name || ':' || t.name || ':%'
    WHERE b.session_no = sessions.no AND b.origin <> 'handoff')
WHERE no IN (SELECT session_no FROM bindings);
CREATE INDEX sessions_by_reset ON sessions (reset_kind, active, no)
    WHERE reset_kind IS NOT NULL AND ended IS NULL;

-- Whether it has a binding.
ALTER TABLE sessions ADD COLUMN is_bound $int NOT NULL DEFAULT 0;
UPDATE sessions SET is_bound = 1 WHERE no IN (SELECT session_no FROM bindings);
CREATE INDEX sessions_bound ON sessions (owner, is_bound, active, no) WHERE is_bound = 1;

CREATE INDEX sessions_held ON sessions (process) WHERE process IS NOT NULL;

-- The chat of a door in a thread, or the door itself.
ALTER TABLE doors ADD COLUMN chat TEXT NOT NULL DEFAULT '';
UPDATE doors SET chat = CASE
    WHEN length(address) - length(replace(address, ':', '')) = 5
    THEN substr(address, 1, length(rtrim(address, replace(address, ':', ''))) - 1)
    ELSE address END;
CREATE INDEX doors_by_chat ON doors (chat, address);
CREATE INDEX doors_newest ON doors (platform, opened);

-- The newest update of each account at each address, also when the inbox has forgotten it.
CREATE TABLE last_updates (
    address   TEXT NOT NULL,
    account   TEXT NOT NULL,
    platform  TEXT NOT NULL,
    chat      TEXT NOT NULL,
    no        $int NOT NULL,                     -- in the inbox
    update_id TEXT NOT NULL,
    received  $int NOT NULL,
    PRIMARY KEY (address, account)
) $strict;
INSERT INTO last_updates (address, account, platform, chat, no, update_id, received)
    SELECT address, account, platform, CASE
        WHEN length(address) - length(replace(address, ':', '')) = 5
        THEN substr(address, 1, length(rtrim(address, replace(address, ':', ''))) - 1)
        ELSE address END, no, update_id, received
    FROM inbox WHERE no IN (SELECT max(no) FROM inbox WHERE account <> '' GROUP BY address, account);
CREATE INDEX last_updates_newest ON last_updates (platform, account, no);
CREATE INDEX last_updates_by_chat ON last_updates (chat, account);

-- Whether a look at old entries left it in place: it is looked at again when its chat goes on.
ALTER TABLE inbox ADD COLUMN kept $int NOT NULL DEFAULT 0;
CREATE INDEX inbox_finished ON inbox (finished, no) WHERE finished IS NOT NULL AND kept = 0;
CREATE INDEX inbox_kept ON inbox (address) WHERE kept = 1;
CREATE INDEX inbox_open ON inbox (address, platform) WHERE finished IS NULL;
CREATE INDEX inbox_taken ON inbox (session_id) WHERE finished IS NULL;

-- Whether it is a report of a job whose fate is not decided.
ALTER TABLE outbox ADD COLUMN report $int NOT NULL DEFAULT 0;
UPDATE outbox SET report = 1
    WHERE EXISTS (SELECT 1 FROM reports r WHERE r.key = outbox.key AND r.passed_on = 0);
CREATE INDEX outbox_reports ON outbox (state, no) WHERE report = 1;
CREATE INDEX outbox_by_receipt ON outbox (address, no) WHERE receipts <> '';
CREATE INDEX outbox_begun ON outbox (address)
    WHERE (state = 'sending' OR (state = 'queued' AND receipts <> ''));
CREATE INDEX outbox_paused_at ON outbox (address, asked)
    WHERE state IN ('queued', 'sending') AND asked > 0;
CREATE INDEX outbox_sent ON outbox (finished, no) WHERE state = 'sent';
CREATE INDEX outbox_unreported ON outbox (no)
    WHERE state IN ('failed', 'uncertain') AND reported = 0 AND session_id IS NOT NULL;

CREATE INDEX reports_by_time ON reports (made);
CREATE INDEX reports_instead_of ON reports (instead_of) WHERE instead_of IS NOT NULL;

-- As in the inbox. It is looked at again when its job runs.
ALTER TABLE runs ADD COLUMN kept $int NOT NULL DEFAULT 0;
CREATE INDEX runs_finished ON runs (finished, id) WHERE finished IS NOT NULL AND kept = 0;
CREATE INDEX runs_kept ON runs (job_id) WHERE kept = 1;
CREATE INDEX runs_by_start ON runs (job_id, started);
CREATE INDEX jobs_busy ON jobs (session_id) WHERE busy = 1;
CREATE INDEX jobs_by_number ON jobs (owner, state, id);

CREATE INDEX identities_by_owner ON identities (owner);
CREATE INDEX homes_by_address ON homes (address);
CREATE INDEX page_updates_by_page ON page_updates (page);
