-- Jobs of document libraries, ordered over HTTP: steps at the sources of a domain (ADR 87).
CREATE TABLE library_job (
    no            INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,                  -- jb_ and 16 hexadecimal digits
    domain        TEXT NOT NULL,
    action        TEXT NOT NULL,                         -- crawl, download, process, embed
    choices       TEXT NOT NULL,                         -- JSON: server.jobs.library_job.LibraryChoices
    state         TEXT NOT NULL DEFAULT 'waiting',       -- server.jobs.job.RunStage
    requested     TEXT,                                  -- an order that is under way
    run           INTEGER,                               -- run.no of the source that is crawled
    progress      TEXT NOT NULL DEFAULT '{}',            -- JSON: what a resumed job need not repeat
    result        TEXT,                                  -- JSON, at its end
    reasons       TEXT NOT NULL DEFAULT '[]',            -- JSON: why it failed
    exit_status   INTEGER,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    starts        INTEGER NOT NULL DEFAULT 0,            -- processes so far
    starts_before INTEGER NOT NULL DEFAULT 0,            -- those before it was resumed last
    server        TEXT,                                  -- that watches its process
    watched_at    INTEGER,
    host          TEXT,
    pid           INTEGER,
    process_start TEXT
)
--;
CREATE INDEX library_job_open ON library_job (state, no) WHERE state IN ('waiting', 'running')
