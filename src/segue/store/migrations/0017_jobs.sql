-- Jobs, their runs, and what the runs report where. Times are microseconds since 1970, except for
-- `lease_until`, which is ticks.

CREATE TABLE jobs (
    id         $serial,
    owner      TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    prompt     TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('once', 'every', 'cron')),
    at         $int,                        -- once: the due time; every: since when it counts
    period     $int,                        -- every: the interval
    expression TEXT,
    zone       TEXT NOT NULL,
    verbatim   $int NOT NULL,
    deliver    TEXT NOT NULL,
    origin     TEXT,
    cwd        TEXT,
    model      TEXT,
    until      $int,
    runs       $int CHECK (runs >= 0),      -- how many are left
    only_if    TEXT CHECK (only_if IN ('command', 'page', 'file')),
    watched    TEXT,                        -- the command, URL or path of the condition
    seen       TEXT,                        -- what the condition last saw, as JSON
    checked    $int,
    checks     $int NOT NULL DEFAULT 0,
    allows     TEXT NOT NULL DEFAULT '[]',  -- as JSON
    may_change_jobs $int NOT NULL DEFAULT 0,
    fallback   $int NOT NULL DEFAULT 0,
    daily_tokens $int CHECK (daily_tokens > 0),
    state      TEXT NOT NULL CHECK (state IN ('enabled', 'paused', 'done')),
    due        $int,
    busy       $int NOT NULL DEFAULT 0,     -- whether a run is waiting or running
    session_id TEXT,
    failures   $int NOT NULL DEFAULT 0,
    error      TEXT CHECK (length(error) <= 500),
    created    $int NOT NULL,
    CHECK ((kind = 'cron') = (at IS NULL) AND (kind = 'cron') = (expression IS NOT NULL)),
    CHECK ((kind = 'every') = (period IS NOT NULL)),
    CHECK ((only_if IS NULL) = (watched IS NULL)),
    CHECK ((state = 'enabled') = (due IS NOT NULL))
) $strict;
CREATE INDEX jobs_due ON jobs (due, id) WHERE state = 'enabled' AND busy = 0;
CREATE INDEX jobs_by_owner ON jobs (owner, state, due, id);
CREATE INDEX jobs_checked ON jobs (checked) WHERE only_if IS NOT NULL;

CREATE TABLE runs (
    id           $serial,
    job_id       $int NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    due          $int NOT NULL,
    state        TEXT NOT NULL CHECK (state IN
                     ('waiting', 'running', 'reported', 'silent', 'failed', 'skipped')),
    started      $int NOT NULL,
    missed_since $int,
    seq          $int,
    attempt      $int NOT NULL DEFAULT 0,
    fence        $int NOT NULL DEFAULT 0,
    process      TEXT,
    lease_until  $int,
    finished     $int,
    error        TEXT CHECK (length(error) <= 500),
    asked        $int NOT NULL DEFAULT 0,   -- by its owner
    seen         TEXT,                      -- by the job's condition, as JSON
    spent        $int NOT NULL DEFAULT 0,   -- tokens of the session when the run began
    tokens       $int NOT NULL DEFAULT 0,   -- of the run
    UNIQUE (job_id, due),
    CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CHECK (state <> 'running' OR process IS NOT NULL),
    CHECK ((state IN ('waiting', 'running')) = (finished IS NULL))
) $strict;
CREATE UNIQUE INDEX runs_open ON runs (job_id) WHERE state IN ('waiting', 'running');

CREATE TABLE reports (
    no         $serial,
    run_id     $int NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    target     TEXT NOT NULL,
    address    TEXT,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('waiting', 'queued', 'kept', 'failed')),
    key        TEXT,                        -- of its message in the outbox
    error      TEXT CHECK (length(error) <= 500),
    made       $int NOT NULL,
    instead_of $int REFERENCES reports (no) ON DELETE SET NULL,
    passed_on  $int NOT NULL DEFAULT 0,     -- whether it failed and its fallback was decided
    CHECK ((state = 'queued') = (key IS NOT NULL)),
    CHECK ((state = 'failed') = (error IS NOT NULL)),
    CHECK (state NOT IN ('waiting', 'queued') OR address IS NOT NULL)
) $strict;
CREATE INDEX reports_by_run ON reports (run_id, no);
CREATE INDEX reports_waiting ON reports (no) WHERE state = 'waiting';
CREATE INDEX reports_by_key ON reports (key) WHERE key IS NOT NULL;
CREATE INDEX reports_failed ON reports (no) WHERE state = 'failed' AND passed_on = 0;
