-- Vector stores that pages are pushed to (ADR 77).
CREATE TABLE vector_store (
    no     INTEGER PRIMARY KEY,
    url    TEXT NOT NULL,                                -- VECTOR_STORE_URL
    id     TEXT NOT NULL,                                -- VECTOR_STORE_ID
    UNIQUE (url, id)
)
--;
-- Files that were given to a store, or are about to be. A row is written before its upload.
CREATE TABLE store_file (
    intent       TEXT PRIMARY KEY,                       -- unique id of the upload, part of its name
    store        INTEGER NOT NULL,                        -- vector_store.no
    source       INTEGER NOT NULL,                        -- source.no
    no           INTEGER NOT NULL,                        -- record.no; 0: of a page that is not known
    url          TEXT NOT NULL,                          -- of the page in this file
    content_hash BLOB NOT NULL,                        -- of the page in this file
    body_hash    BLOB,                                 -- SHA-256 of the file; NULL: found in the store
    size         INTEGER,                                 -- bytes of the file; NULL: found in the store
    name         TEXT NOT NULL,                          -- of the file, as sent
    file         TEXT,                                   -- id that the server gave; NULL: not known
    status       TEXT NOT NULL,                          -- intended, uploaded, attached, completed, leaving
    intended_at  INTEGER NOT NULL
)
--;
CREATE INDEX store_file_page ON store_file (store, source, no)
