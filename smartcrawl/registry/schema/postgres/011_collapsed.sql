-- Pages that lost nearly all of their text (collapsed pages), and former texts of pages.

-- Collapsed pages of an open run: their answers wait until its queue is empty.
CREATE TABLE collapse (
    no        BIGINT PRIMARY KEY,                        -- record.no
    run       BIGINT NOT NULL,                           -- run.no
    text_hash BYTEA NOT NULL,                            -- of the new text
    size      BIGINT NOT NULL,                           -- bytes of body
    answer    TEXT NOT NULL,                             -- JSON: address and headers
    body      BYTEA,                                     -- gzip; NULL: the run withholds all of them
    accepted  BOOLEAN NOT NULL DEFAULT FALSE             -- the run accepts it as an edit
)
--;
CREATE INDEX collapse_run ON collapse (run)
--;
-- Decision of a run about them: 0: none yet; -1: all are withheld; else the number of edits.
ALTER TABLE run ADD COLUMN edits INTEGER NOT NULL DEFAULT 0
--;
-- The last five texts of a page before its present one, newest first: the first eight bytes of
-- each text_hash, as a signed number.
CREATE TABLE former_text (
    no     BIGINT PRIMARY KEY,                           -- record.no
    first  BIGINT NOT NULL,
    second BIGINT,
    third  BIGINT,
    fourth BIGINT,
    fifth  BIGINT
)
