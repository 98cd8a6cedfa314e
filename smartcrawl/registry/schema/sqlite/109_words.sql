-- Words of chunks are made by the program (docs/adr/ranking.md): the index has them without a text.
ALTER TABLE chunk_words RENAME TO chunk_words_former
--;
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, headings, text, pictures, content = '', contentless_delete = 1, tokenize = 'ascii'
)
--;
INSERT INTO chunk_words (chunk_words, rank) VALUES ('automerge', 8)
--;
-- ISO 639-1, by which the words of a chunk were made.
ALTER TABLE chunk ADD COLUMN language TEXT NOT NULL DEFAULT ''
--;
-- Languages of chunks that were ever here.
CREATE TABLE chunk_language (language TEXT PRIMARY KEY) WITHOUT ROWID
--;
INSERT INTO chunk_language SELECT DISTINCT language FROM content
--;
-- Chunks up to this number have new words; the others wait for them in chunk_words_former.
INSERT INTO choice (name, value) SELECT 'words until', '0' WHERE EXISTS (SELECT 1 FROM chunk)
