-- Why the holder of a session does not work on its last message: 'asking' or 'stopped'.

ALTER TABLE sessions ADD COLUMN pause TEXT;
