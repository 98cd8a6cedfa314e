-- Samples of the progress of a run, from its begin to its end (rules.progress; ADR 171). The counts
-- are those of the row of the run, as of a commit.
CREATE TABLE run_sample (
    run              INTEGER NOT NULL REFERENCES run (no),
    at               INTEGER NOT NULL,                 -- Unix seconds
    visits           INTEGER NOT NULL,
    queued           INTEGER NOT NULL,
    requests         INTEGER NOT NULL,
    not_modified     INTEGER NOT NULL,
    failed           INTEGER NOT NULL,                 -- pages
    bytes_downloaded INTEGER NOT NULL,
    PRIMARY KEY (run, at)
) WITHOUT ROWID
--;
-- When the newest sample of a run was taken; NULL: none was.
ALTER TABLE run ADD COLUMN sampled_at INTEGER
--;
-- Seconds from one sample to the next: twice as many each time that they are thinned.
ALTER TABLE run ADD COLUMN sample_seconds INTEGER NOT NULL DEFAULT 10
--;
-- Stored pages of the source at the end of the run; NULL: it did not reach its end.
ALTER TABLE run ADD COLUMN held INTEGER
