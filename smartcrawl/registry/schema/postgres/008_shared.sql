-- Workers that share a run: those that are given the same name work on the same one.
ALTER TABLE run ADD COLUMN job TEXT
--;
-- A source is held by one process alone (run IS NULL), or by the workers of one run.
ALTER TABLE lease DROP CONSTRAINT lease_pkey
--;
ALTER TABLE lease ADD PRIMARY KEY (source, token)
--;
ALTER TABLE lease ADD COLUMN run BIGINT                  -- run.no; 0: a worker that is about to join
--;
ALTER TABLE lease ADD COLUMN closes BOOLEAN NOT NULL DEFAULT FALSE  -- it is the one that ends the run
