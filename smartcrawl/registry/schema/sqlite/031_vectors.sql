-- Embedders that made vectors here. One of another model or dimension is another embedder (docs/adr/0074).
CREATE TABLE embedder (
    no        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,                             -- EMBEDDER
    model     TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    whole_at  INTEGER,                                   -- when every chunk first had its vector; NULL: not yet
    UNIQUE (name, model, dimension)
)
--;
-- Vectors of chunks, by chunk.hash: equal chunks of all sources have one.
CREATE TABLE vector (
    hash         BLOB NOT NULL,
    embedder     INTEGER NOT NULL,                       -- embedder.no
    vector       BLOB,                                   -- float32, little-endian; NULL: the text is refused
    refused      TEXT,                                   -- why there is no vector
    unused_since INTEGER,                                -- no chunk has the hash since; NULL: in use
    PRIMARY KEY (hash, embedder)
)
--;
CREATE INDEX chunk_hash ON chunk (hash)
