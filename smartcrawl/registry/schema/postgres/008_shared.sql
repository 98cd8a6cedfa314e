-- Workers that share a run: workers with the same job name work on the same run.
ALTER TABLE run ADD COLUMN job TEXT
--;
-- A source is leased to one process alone (run IS NULL), or to the workers of one run.
ALTER TABLE lease DROP CONSTRAINT lease_pkey
--;
ALTER TABLE lease ADD PRIMARY KEY (source, token)
--;
ALTER TABLE lease ADD COLUMN run BIGINT                  -- run.no; 0: a worker that has not joined yet
--;
ALTER TABLE lease ADD COLUMN closes BOOLEAN NOT NULL DEFAULT FALSE  -- this worker ends the run
