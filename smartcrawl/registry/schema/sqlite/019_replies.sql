-- Replies to requests with an Idempotency-Key, for 24 hours (ADR 54). A row without status
-- exists only within the transaction that does the work.
CREATE TABLE reply (
    owner        TEXT NOT NULL,                          -- api_key.id; empty without a key
    method       TEXT NOT NULL,
    path         TEXT NOT NULL,
    key          TEXT NOT NULL,                          -- Idempotency-Key, in lower case
    request_hash BLOB NOT NULL,                          -- SHA-256 of the request
    created_at   INTEGER NOT NULL,
    status       INTEGER,
    headers      TEXT,                                   -- JSON
    body         TEXT,
    PRIMARY KEY (owner, method, path, key)
)
--;
CREATE INDEX reply_created ON reply (created_at)
