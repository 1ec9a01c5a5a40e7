-- Filled from `sessions.indexed_seq` on when somebody searches; a trigger would make appends slow.
CREATE VIRTUAL TABLE words USING fts5 (content, content = 'messages', content_rowid = 'id');
