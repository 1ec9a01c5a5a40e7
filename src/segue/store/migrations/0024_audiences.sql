-- Who could read the home channel when the owner chose it, as JSON. NULL if that is not known.

ALTER TABLE homes ADD COLUMN audience TEXT;

-- Messages that wait for their owner, while later ones to the same address are sent.
ALTER TABLE outbox ADD COLUMN held $int NOT NULL DEFAULT 0;
CREATE INDEX outbox_held ON outbox (no) WHERE held = 1;
