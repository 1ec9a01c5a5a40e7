-- When the first attempt began that may have arrived, although its sender does not know. NULL if
-- there was none. A platform remembers the key of a message only for some time after it.

ALTER TABLE outbox ADD COLUMN unconfirmed $int;
