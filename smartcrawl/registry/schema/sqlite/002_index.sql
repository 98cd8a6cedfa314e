-- The embedded index (ADR 1): FTS5 over chunks as external content. index/embedded/sqlite.py writes both
-- tables: a trigger would make FTS5 flush its buffer for every row, three times the cost of a page.

CREATE TABLE chunk (
    no       INTEGER PRIMARY KEY,
    content  INTEGER NOT NULL,                       -- content.no
    position INTEGER NOT NULL,
    title    TEXT NOT NULL,
    headings TEXT NOT NULL,                          -- heading path, " > " between
    text     TEXT NOT NULL
)
--;
CREATE INDEX chunk_content ON chunk (content, position)
--;
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, headings, text,
    content = 'chunk', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2'
)
--;
-- Merge index segments half as often as FTS5's default: a third less writing, the same results.
INSERT INTO chunk_words (chunk_words, rank) VALUES ('automerge', 8)
