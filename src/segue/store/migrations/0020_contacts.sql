-- When a gateway last received from an account of a platform, with everything before it recorded.
CREATE TABLE contacts (
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    at       $int NOT NULL,
    PRIMARY KEY (platform, account)
) $strict;
