-- Workers that share a run: those that are given the same name work on the same one.
ALTER TABLE run ADD COLUMN job TEXT
