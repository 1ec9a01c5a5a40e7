
-- The next message of each address, address by address, and the newest messages of a platform.

CREATE INDEX outbox_lanes ON outbox (platform, address, no) WHERE state IN ('queued', 'sending');
DROP INDEX outbox_queued;
CREATE INDEX outbox_queued ON outbox (platform, no) WHERE state = 'queued';
