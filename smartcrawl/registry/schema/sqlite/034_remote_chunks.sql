-- Chunks that an index elsewhere has, where EMBEDDER is set (ADR 76). The chunks of a content without a row are not known.
CREATE TABLE remote_chunk (
    content  INTEGER NOT NULL,                           -- content.no
    position INTEGER NOT NULL,
    hash     BLOB NOT NULL,                              -- digest of title, headings and text, as chunk.hash
    PRIMARY KEY (content, position)
) WITHOUT ROWID
--;
CREATE INDEX remote_chunk_hash ON remote_chunk (hash)
--;
-- Chunks with a vector in the document of this page that the index elsewhere took last; -1: not known.
ALTER TABLE record ADD COLUMN sunk_vectors INTEGER NOT NULL DEFAULT 0
