-- Embedders that made vectors here. One of another model or dimension is another embedder (ADR 74).
CREATE TABLE embedder (
    no        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,                             -- EMBEDDER
    model     TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    whole_at  INTEGER,                                   -- when every chunk last was seen to have its vector; NULL: never
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
--;
DROP VIEW documents
--;
-- The vector is that of the embedder that searches use.
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_object('level', CASE WHEN k.hash IS NULL
                                 THEN length(k.headings) - length(replace(k.headings, ' > ', '  ')) + 1
                                 ELSE k.level END, 'path', k.headings,
                   'types', json('["' || replace(k.types, ',', '","') || '"]'),
                   'repeated', k.repeated, 'hash', lower(hex(k.hash))) AS metadata,
       k.position AS sort_order,
       (SELECT v.vector FROM vector v
         WHERE v.hash = k.hash
           AND v.embedder = (SELECT e.no FROM embedder e WHERE e.whole_at IS NOT NULL
                              ORDER BY e.whole_at DESC, e.no DESC LIMIT 1)) AS embedding,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
