-- What changed on a page (ADR 175): words of both texts, those that came and went, and changed lines. NULL: not known.
ALTER TABLE change ADD COLUMN words INTEGER
--;
ALTER TABLE change ADD COLUMN added INTEGER
--;
ALTER TABLE change ADD COLUMN removed INTEGER
--;
ALTER TABLE change ADD COLUMN line_count INTEGER
--;
-- Digests of the changed lines that are kept, 8 bytes each.
ALTER TABLE change ADD COLUMN lines BLOB
--;
-- zstd of JSON: headings and lines, and the former title if it changed.
ALTER TABLE change ADD COLUMN detail BLOB
--;
-- SHA-256 of the body that the page had before.
ALTER TABLE change ADD COLUMN body BLOB
--;
-- Whether each of its lines changed on many pages of the run.
ALTER TABLE change ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0
--;
CREATE INDEX change_run ON change (run, is_shared, no)
--;
-- Lines that changed on many pages of a run, when it had ended.
CREATE TABLE shared_change (
    run      INTEGER NOT NULL,                       -- run.no
    digest   BLOB NOT NULL,
    pages    INTEGER NOT NULL,
    is_added INTEGER NOT NULL,                       -- 0: the pages lost it
    text     TEXT NOT NULL,
    PRIMARY KEY (run, digest)
)
--;
-- The pages that a run found; runs give out ascending numbers, so that a row comes at the end.
CREATE INDEX record_first_run ON record (first_run)
