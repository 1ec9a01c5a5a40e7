-- What could not be done keeps its reason, and what may not have arrived is offered again, once.

ALTER TABLE inbox ADD COLUMN error TEXT CHECK (length(error) <= 500);   -- why it was set aside
ALTER TABLE inbox ADD COLUMN starts $int NOT NULL DEFAULT 0;   -- of gateways that found it waiting
CREATE INDEX inbox_troubled ON inbox (no) WHERE error IS NOT NULL;

ALTER TABLE outbox ADD COLUMN asked $int NOT NULL DEFAULT 0;   -- the platform asked for the pause
ALTER TABLE outbox ADD COLUMN offered $int NOT NULL DEFAULT 0;
UPDATE outbox SET offered = 1 WHERE state = 'uncertain';
CREATE INDEX outbox_offerable ON outbox (address, no) WHERE state = 'uncertain' AND offered = 0;

ALTER TABLE handoffs ADD COLUMN detail TEXT;                            -- what its step waits for
