-- A message may carry a file of this machine.

ALTER TABLE outbox ADD COLUMN file TEXT;         -- its path
