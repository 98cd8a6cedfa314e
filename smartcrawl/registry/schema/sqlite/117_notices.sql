-- Notices to targets of [notify.NAME], in the order in which each target gets them (ADR 174).
CREATE TABLE notice (
    no       INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,                   -- msg_ and 32 hexadecimal digits
    target   TEXT NOT NULL,                          -- NAME
    event    TEXT NOT NULL,                          -- rules.notices.Event
    source   TEXT NOT NULL,                          -- source.name; empty: a test
    run      INTEGER,                                -- run.no that caused it
    data     TEXT NOT NULL,                          -- JSON
    at       INTEGER NOT NULL,                       -- Unix seconds
    attempts INTEGER NOT NULL DEFAULT 0,
    state    TEXT NOT NULL DEFAULT 'waiting',        -- waiting, delivered or given up
    ended_at INTEGER,
    error    TEXT                                    -- of the last attempt
)
--;
CREATE INDEX notice_waiting ON notice (target, no) WHERE state = 'waiting'
--;
CREATE INDEX notice_ended ON notice (ended_at) WHERE ended_at IS NOT NULL
--;
-- Targets that were sent to. A process sends to one that it has claimed.
CREATE TABLE notice_target (
    name          TEXT PRIMARY KEY,
    failures      INTEGER NOT NULL DEFAULT 0,        -- attempts in a row
    next_at       INTEGER NOT NULL DEFAULT 0,        -- it gets nothing before
    claimed_by    TEXT,
    claimed_until INTEGER,
    closed_at     INTEGER,                           -- it answered 410: nothing is sent any more
    reason        TEXT
) WITHOUT ROWID
--;
-- Sources that notices have called stale.
CREATE TABLE stale_source (
    source TEXT PRIMARY KEY,                         -- source.name
    at     INTEGER NOT NULL
) WITHOUT ROWID
