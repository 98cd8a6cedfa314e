-- What changed on a page (ADR 175): words of both texts, those that came and went, and changed lines. NULL: not known.
ALTER TABLE change ADD COLUMN words BIGINT
--;
ALTER TABLE change ADD COLUMN added BIGINT
--;
ALTER TABLE change ADD COLUMN removed BIGINT
--;
ALTER TABLE change ADD COLUMN line_count INTEGER
--;
-- Digests of the changed lines that are kept, 8 bytes each.
ALTER TABLE change ADD COLUMN lines BYTEA
--;
-- zstd of JSON: headings and lines, and the former title if it changed.
ALTER TABLE change ADD COLUMN detail BYTEA
--;
-- SHA-256 of the body that the page had before.
ALTER TABLE change ADD COLUMN body BYTEA
--;
-- Whether each of its lines changed on many pages of the run.
ALTER TABLE change ADD COLUMN is_shared BOOLEAN NOT NULL DEFAULT FALSE
--;
CREATE INDEX change_run ON change (run, is_shared, no)
--;
-- Lines that changed on many pages of a run, when it had ended.
CREATE TABLE shared_change (
    run      BIGINT NOT NULL,                       -- run.no
    digest   BYTEA NOT NULL,
    pages    INTEGER NOT NULL,
    is_added BOOLEAN NOT NULL,                       -- FALSE: the pages lost it
    text     TEXT NOT NULL,
    PRIMARY KEY (run, digest)
)
--;
-- The pages that a run found; runs give out ascending numbers, so that a row comes at the end.
CREATE INDEX record_first_run ON record (first_run)
