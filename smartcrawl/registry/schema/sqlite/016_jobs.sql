-- Jobs of the HTTP API: each is a source with settings and a schedule (ADR 50).
CREATE TABLE job (
    no           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,                   -- job_ and 16 hexadecimal digits
    name         TEXT NOT NULL,                          -- of its source
    version      INTEGER NOT NULL DEFAULT 1,             -- it grows with each new definition
    definition   TEXT NOT NULL,                          -- JSON: seed_urls, config, filters, schedule
    status       TEXT NOT NULL DEFAULT 'created',        -- rules.jobs.JobStatus
    complete     INTEGER,                                -- whether its last run saw everything
    reasons      TEXT NOT NULL DEFAULT '[]',             -- JSON: why not, or why it failed
    due_at       INTEGER,                                -- time of its next run; NULL: none
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,                                -- of its last run
    completed_at INTEGER,
    deleted_at   INTEGER,
    CONSTRAINT valid_job_status CHECK (status IN ('created', 'scheduled', 'running', 'paused',
                                                  'completed', 'failed', 'cancelled'))
)
--;
CREATE UNIQUE INDEX job_name ON job (name) WHERE deleted_at IS NULL
--;
CREATE INDEX job_due ON job (due_at) WHERE due_at IS NOT NULL
--;
-- One row for each time at which a job was due; a run stands for the times missed before it.
CREATE TABLE job_run (
    no          INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,                    -- jb_ and 16 hexadecimal digits
    job         INTEGER NOT NULL REFERENCES job (no),
    due_at      INTEGER NOT NULL,
    fired_at    INTEGER NOT NULL,
    state       TEXT NOT NULL DEFAULT 'waiting',         -- server.jobs.job.RunStage
    run         INTEGER,                                 -- run.no, once it is open
    exit_status INTEGER,                                 -- of its process; NULL: none, or it vanished
    reasons     TEXT NOT NULL DEFAULT '[]',              -- JSON
    ended_at    INTEGER,
    UNIQUE (job, due_at)
)
--;
CREATE INDEX job_run_open ON job_run (state, no) WHERE state IN ('waiting', 'running')
--;
-- The table crawl_jobs of the seed (R2-58). Counts are those of the job's last run that was opened.
CREATE VIEW crawl_jobs AS
SELECT j.id AS job_id,
       j.name AS name,
       json_extract(j.definition, '$.config') AS config,
       json_extract(j.definition, '$.seed_urls') AS seed_urls,
       json_extract(j.definition, '$.filters') AS filters,
       json_extract(j.definition, '$.schedule.type') AS schedule_type,
       json_extract(j.definition, '$.schedule.cron') AS cron_expression,
       j.status AS status,
       coalesce(r.visits, 0) AS pages_crawled,
       (SELECT count(*) FROM state s WHERE s.reached_run = r.no AND s.visited_run < r.no)
           AS pages_queued,
       (SELECT count(*) FROM state s WHERE s.visited_run = r.no AND s.outcome IN (7, 8))
           AS pages_failed,
       coalesce(r.bytes_downloaded, 0) AS bytes_downloaded,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.created_at, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.started_at, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.completed_at, 'unixepoch') AS completed_at
  FROM job j
  LEFT JOIN run r ON r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = j.no)
 WHERE j.deleted_at IS NULL
