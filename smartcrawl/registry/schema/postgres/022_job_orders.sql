-- Orders to jobs (ADR 57). The order to a job's run that is under way: pause, cancel, or resume.
ALTER TABLE job_run ADD COLUMN requested TEXT
--;
-- Processes of the run before it was resumed last: those after it are counted against its limit.
ALTER TABLE job_run ADD COLUMN starts_before BIGINT NOT NULL DEFAULT 0
--;
-- The row of a declared source: its definition is the schedule alone.
ALTER TABLE job ADD COLUMN declared BOOLEAN NOT NULL DEFAULT FALSE
--;
-- The reply waits for the effect of an order.
ALTER TABLE reply ADD COLUMN pending BOOLEAN NOT NULL DEFAULT FALSE
