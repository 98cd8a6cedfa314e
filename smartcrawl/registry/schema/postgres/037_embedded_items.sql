-- Items of document libraries in vector stores (ADR 85).
ALTER TABLE store_file ADD COLUMN facts BYTEA
--;
ALTER TABLE store_file ADD COLUMN uploaded_at BIGINT
--;
ALTER TABLE store_file ADD COLUMN embedded_at BIGINT
--;
-- Versions of items that a store could not embed: none is tried again before it changes.
CREATE TABLE embed_failure (
    no     BIGINT PRIMARY KEY,                             -- record.no
    source BIGINT NOT NULL,                                -- source.no
    facts  BYTEA NOT NULL,                                -- as store_file.facts
    hash   BYTEA NOT NULL,                                -- SHA-256 of the file
    error  TEXT NOT NULL
)
--;
CREATE INDEX embed_failure_source ON embed_failure (source)
--;
-- Vector stores that are made for domains; a row is written before the request.
CREATE TABLE domain_store (
    domain TEXT NOT NULL,
    url    TEXT NOT NULL,                                -- VECTOR_STORE_URL
    intent TEXT NOT NULL,                                -- unique id, in the metadata of the store
    id     TEXT,                                         -- that the server gave; NULL: not known
    PRIMARY KEY (domain, url)
)
