-- Approvals of withheld removals, and undos: who ordered them, and what came of it (ADR 168).
CREATE TABLE removal_order (
    no          INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,                -- ro_ and 16 hexadecimal digits
    source      TEXT NOT NULL,                       -- source.name
    action      TEXT NOT NULL,                       -- approve or undo
    run         INTEGER NOT NULL,                    -- run.no of the removals
    most        INTEGER,                             -- pages that an approval removes at most
    is_pinned   INTEGER NOT NULL DEFAULT 0,          -- whether an undo pins the pages
    orderer     TEXT NOT NULL,                       -- id and name of the API key, or the command line
    state       TEXT NOT NULL DEFAULT 'waiting',     -- waiting, running or ended
    result      TEXT,                                -- JSON; NULL before its end, and if it failed
    reasons     TEXT NOT NULL DEFAULT '[]',          -- JSON: why it was not carried out
    created_at  INTEGER NOT NULL,                    -- Unix seconds
    ended_at    INTEGER
)
--;
CREATE INDEX removal_order_open ON removal_order (state, no) WHERE state IN ('waiting', 'running')
