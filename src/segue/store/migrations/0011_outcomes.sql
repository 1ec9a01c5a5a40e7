-- Why a tool call has no result, which was known by the text of the message alone.

-- Without IS NULL, SQLite would build a table of the three words for every row that is inserted.

ALTER TABLE messages ADD COLUMN outcome TEXT
    CHECK (outcome IS NULL OR outcome IN ('interrupted', 'not begun', 'denied'));

UPDATE messages SET outcome = CASE
    WHEN content LIKE '[interrupted: this tool call did not finish,%' THEN 'interrupted'
    WHEN content LIKE '[interrupted: this tool call was not begun,%' THEN 'not begun'
    WHEN content LIKE '[not allowed: the person said no to this call.%' THEN 'denied'
END
WHERE role = 'tool' AND content LIKE '[%';
