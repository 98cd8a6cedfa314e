-- Samples of the progress of a run, from its begin to its end (rules.progress; ADR 171). The counts
-- are those of the row of the run, as of a commit.
CREATE TABLE run_sample (
    run              BIGINT NOT NULL REFERENCES run (no),
    at               BIGINT NOT NULL,                  -- Unix seconds
    visits           BIGINT NOT NULL,
    queued           BIGINT NOT NULL,
    requests         BIGINT NOT NULL,
    not_modified     BIGINT NOT NULL,
    failed           BIGINT NOT NULL,                  -- pages
    bytes_downloaded BIGINT NOT NULL,
    PRIMARY KEY (run, at)
)
--;
-- When the newest sample of a run was taken; NULL: none was.
ALTER TABLE run ADD COLUMN sampled_at BIGINT
--;
-- Seconds from one sample to the next: twice as many each time that they are thinned.
ALTER TABLE run ADD COLUMN sample_seconds INTEGER NOT NULL DEFAULT 10
--;
-- Stored pages of the source at the end of the run; NULL: it did not reach its end.
ALTER TABLE run ADD COLUMN held BIGINT
