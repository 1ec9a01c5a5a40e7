-- PostgreSQL refuses to index more than a megabyte of words; the beginning of a text finds it.
CREATE INDEX words ON messages USING gin (to_tsvector('simple', left(content, 100000)));
