-- Workers that share a run: workers with the same job name work on the same run.
ALTER TABLE run ADD COLUMN job TEXT
