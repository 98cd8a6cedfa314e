-- What a page says of its pictures is searched with the chunk in which they stand (ADR 158).
ALTER TABLE chunk ADD COLUMN pictures TEXT NOT NULL DEFAULT ''
--;
DROP TABLE chunk_words
--;
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, headings, text, pictures,
    content = 'chunk', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2'
)
--;
INSERT INTO chunk_words (chunk_words, rank) VALUES ('automerge', 8)
--;
INSERT INTO chunk_words (chunk_words) VALUES ('rebuild')
