-- The embedded index (design.md 7): FTS5 over chunks as external content, kept by triggers.

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
CREATE TRIGGER chunk_added AFTER INSERT ON chunk BEGIN
    INSERT INTO chunk_words (rowid, title, headings, text)
    VALUES (new.no, new.title, new.headings, new.text);
END
--;
CREATE TRIGGER chunk_removed AFTER DELETE ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, headings, text)
    VALUES ('delete', old.no, old.title, old.headings, old.text);
END
