-- A file that a message carries, as it was when its sending was approved.

CREATE TABLE uploads (
    key  TEXT PRIMARY KEY,                       -- the message's, in outbox
    data $bytes NOT NULL
) $strict;
