-- Addresses that were added over the HTTP API, until a run of their source registers them. A run
-- gives out numbers of its own, so that no other process may add an address to its source.
CREATE TABLE ordered_address (
    source TEXT NOT NULL,                                -- source.name
    id     BLOB NOT NULL,                                -- as record.id
    url    TEXT NOT NULL,
    forced INTEGER NOT NULL,                             -- orders to index it anew
    at     INTEGER NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID
--;
CREATE INDEX ordered_address_id ON ordered_address (id)
--;
-- Ordered runs of the pages of a source that are due, until they end (ADR 61). The process is
-- as in job_run; without a server the run waits, one of each source.
CREATE TABLE due_run (
    no            INTEGER PRIMARY KEY,
    source        TEXT NOT NULL,                         -- source.name
    at            INTEGER NOT NULL,                      -- it does not begin before
    starts        INTEGER NOT NULL DEFAULT 0,            -- processes so far
    server        TEXT,
    watched_at    INTEGER,
    host          TEXT,
    pid           INTEGER,
    process_start TEXT
)
--;
CREATE UNIQUE INDEX due_run_waiting ON due_run (source) WHERE server IS NULL
--;
-- The order to visit all pages again, carried out in steps; at most one row.
CREATE TABLE rebuild (
    no     INTEGER PRIMARY KEY,                          -- 1
    forced INTEGER NOT NULL,
    place  INTEGER NOT NULL,                             -- record.no up to which it is done
    last   INTEGER NOT NULL                              -- record.no up to which it goes
)
--;
-- Sources whose ids the next run computes anew, and merges what collides.
CREATE TABLE recompute (
    source TEXT PRIMARY KEY                              -- source.name
)
