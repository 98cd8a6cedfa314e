-- Pages of which hardly anything is left, and the texts that pages had before.

-- Collapsed pages of a run that goes on: what was answered waits until its queue is empty.
CREATE TABLE collapse (
    no        BIGINT PRIMARY KEY,                        -- record.no
    run       BIGINT NOT NULL,                           -- run.no
    text_hash BYTEA NOT NULL,                            -- of the new text
    size      BIGINT NOT NULL,                           -- bytes of body
    answer    TEXT NOT NULL,                             -- JSON: what the headers said
    body      BYTEA,                                     -- gzip; NULL: the run withholds all of them
    accepted  BOOLEAN NOT NULL DEFAULT FALSE             -- the run takes it as an edit
)
--;
CREATE INDEX collapse_run ON collapse (run)
--;
-- What a run decided about them: 0: nothing yet; -1: all are withheld; else how many are edits.
ALTER TABLE run ADD COLUMN edits INTEGER NOT NULL DEFAULT 0
--;
-- The last five texts that a page had before the one it has, the newest first: the first eight
-- bytes of each text_hash, as a signed number.
CREATE TABLE former_text (
    no     BIGINT PRIMARY KEY,                           -- record.no
    first  BIGINT NOT NULL,
    second BIGINT,
    third  BIGINT,
    fourth BIGINT,
    fifth  BIGINT
)
