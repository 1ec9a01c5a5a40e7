-- The kind of a handoff's failure, which was known by its message alone; steps by their names.

ALTER TABLE handoffs ADD COLUMN failure TEXT
    CHECK (failure IN ('cancelled', 'expired', 'abandoned', 'error'));

UPDATE handoffs SET failure = CASE
    WHEN error LIKE 'Cancelled.%' THEN 'cancelled'
    WHEN error LIKE 'No gateway took it up in time.%' THEN 'expired'
    WHEN error LIKE 'The gateway stopped in the middle of it,%' THEN 'abandoned'
    ELSE 'error'
END
WHERE state = 'failed';

UPDATE handoffs SET step = CASE step
    WHEN 'taken up' THEN 'claimed'
    WHEN 'opening a thread' THEN 'opening'
    WHEN 'agent replying' THEN 'replying'
    ELSE step
END
WHERE step IS NOT NULL;
