-- For the beginning of a title, as SQLite sorts it.
ALTER TABLE sessions ALTER COLUMN lineage TYPE TEXT COLLATE "C";
