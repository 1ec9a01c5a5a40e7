-- An edit names the message that it changes: whether that is known, and what it said.

ALTER TABLE inbox ADD COLUMN message_id TEXT NOT NULL DEFAULT '';
CREATE INDEX inbox_by_message ON inbox (address, message_id) WHERE message_id <> '';
