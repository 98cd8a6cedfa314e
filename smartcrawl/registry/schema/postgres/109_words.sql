-- Words of chunks are made by the program (docs/adr/ranking.md).
DROP TEXT SEARCH CONFIGURATION stems
--;
DROP TEXT SEARCH DICTIONARY stem
--;
-- ISO 639-1, by which the words of a chunk were made.
ALTER TABLE chunk ADD COLUMN language TEXT NOT NULL DEFAULT ''
--;
-- Languages of chunks that were ever here.
CREATE TABLE chunk_language (language TEXT PRIMARY KEY)
--;
INSERT INTO chunk_language SELECT DISTINCT language FROM content
--;
-- Chunks up to this number have new words.
INSERT INTO choice (name, value) SELECT 'words until', '0' WHERE EXISTS (SELECT 1 FROM chunk)
