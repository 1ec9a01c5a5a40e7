-- Keys that begin alike are found by a range of bytes, whatever the order of the database is.
CREATE INDEX outbox_by_bytes ON outbox (key COLLATE "C");
