-- Counts that the batches of a run add up in its row, so that no scan is needed to read them
-- (registry.commit.run_counts; ADR 58).
ALTER TABLE run ADD COLUMN queued INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE run ADD COLUMN hosts INTEGER NOT NULL DEFAULT 0
--;
-- JSON: visited pages by lastOutcome.
ALTER TABLE run ADD COLUMN words TEXT NOT NULL DEFAULT '{}'
--;
-- JSON [[time, visits, bytes_downloaded], ...] of the last minute (rules.rate).
ALTER TABLE run ADD COLUMN marks TEXT NOT NULL DEFAULT '[]'
--;
-- Hosts that a run has visited so far; no rows of a run that is over.
CREATE TABLE run_host (
    run  INTEGER NOT NULL REFERENCES run (no),
    host INTEGER NOT NULL,                               -- host.no
    PRIMARY KEY (run, host)
) WITHOUT ROWID
--;
UPDATE run SET queued = c.queued
  FROM (SELECT reached_run AS no, count(*) AS queued FROM state
         WHERE visited_run < reached_run GROUP BY 1) c
 WHERE c.no = run.no
--;
UPDATE run SET hosts = c.hosts
  FROM (SELECT visited_run AS no, count(DISTINCT host) AS hosts FROM state GROUP BY 1) c
 WHERE c.no = run.no
--;
UPDATE run SET words = c.words
  FROM (SELECT no, json_group_object(word, count) AS words
          FROM (SELECT visited_run AS no, count(*) AS count,
                       CASE outcome
                       WHEN 1 THEN 'new' WHEN 2 THEN 'modified' WHEN 3 THEN 'unchanged'
                       WHEN 5 THEN 'redirected' WHEN 6 THEN 'skipped' WHEN 7 THEN 'failed'
                       WHEN 8 THEN 'lost' WHEN 9 THEN 'gone' WHEN 10 THEN 'excluded'
                       WHEN 11 THEN 'orphaned' WHEN 12 THEN 'deleted' END AS word
                  FROM state WHERE outcome IS NOT NULL GROUP BY 1, 3) w
         GROUP BY 1) c
 WHERE c.no = run.no
--;
DROP VIEW crawl_jobs
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
       coalesce(r.queued, 0) AS pages_queued,
       coalesce(json_extract(r.words, '$.failed'), 0)
           + coalesce(json_extract(r.words, '$.lost'), 0) AS pages_failed,
       coalesce(r.bytes_downloaded, 0) AS bytes_downloaded,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.created_at, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.started_at, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.completed_at, 'unixepoch') AS completed_at
  FROM job j
  LEFT JOIN run r ON r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = j.no)
 WHERE j.deleted_at IS NULL
