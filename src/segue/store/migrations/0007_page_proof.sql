-- A browser proves that it holds a secret, and never sends it. The browsers of before kept a cookie,
-- of which only a digest is known: they have to be paired again.

DROP TABLE browsers;
DELETE FROM identities WHERE platform = 'web';

CREATE TABLE browsers (
    id     TEXT PRIMARY KEY,
    secret TEXT NOT NULL,
    origin TEXT NOT NULL,                       -- where it was paired; it is known nowhere else
    made   $int NOT NULL
) $strict;

CREATE TABLE page_links (
    no      $serial,
    id      TEXT NOT NULL UNIQUE,
    secret  TEXT NOT NULL,                      -- both derived from the token in the link
    owner   TEXT NOT NULL REFERENCES owners (id) ON DELETE CASCADE,
    process TEXT NOT NULL,                      -- the gateway that it leads to
    until   $int NOT NULL
) $strict;

CREATE TABLE page_places (
    machine   TEXT PRIMARY KEY,
    port      $int NOT NULL,
    addresses TEXT NOT NULL                     -- with blanks between them
) $strict;
