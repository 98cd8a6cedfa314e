-- The process of a job's run (model.processes.Process; NULL: none is known yet), the server that
-- watches it, the last sign of life of that server, and the processes so far (ADR 53).
ALTER TABLE job_run ADD COLUMN host TEXT
--;
ALTER TABLE job_run ADD COLUMN pid BIGINT
--;
ALTER TABLE job_run ADD COLUMN process_start TEXT
--;
ALTER TABLE job_run ADD COLUMN server TEXT
--;
ALTER TABLE job_run ADD COLUMN watched_at BIGINT
--;
ALTER TABLE job_run ADD COLUMN starts BIGINT NOT NULL DEFAULT 0
