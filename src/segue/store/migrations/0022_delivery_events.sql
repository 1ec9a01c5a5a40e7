-- What became of a message of ours, as its platform says, while that message is still being sent.

CREATE TABLE delivery_events (
    no      $serial,
    address TEXT NOT NULL,
    receipt TEXT NOT NULL,
    outcome TEXT NOT NULL,                       -- 'delivered' or 'undelivered'
    detail  TEXT NOT NULL,                       -- the key of the message, or the reason
    UNIQUE (address, receipt, outcome)
) $strict;

-- From now on `asked` says until when the platform asked us to wait, in ticks; 0 if it did not.
UPDATE outbox SET asked = not_before WHERE asked = 1;
CREATE INDEX outbox_paused ON outbox (asked) WHERE state IN ('queued', 'sending') AND asked > 0;
