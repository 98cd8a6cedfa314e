-- Pages of which hardly anything is left, and the texts that pages had before.

-- Collapsed pages of a run that goes on: what was answered waits until its queue is empty.
CREATE TABLE collapse (
    no        INTEGER PRIMARY KEY,                       -- record.no
    run       INTEGER NOT NULL,                          -- run.no
    text_hash BLOB NOT NULL,                             -- of the new text
    size      INTEGER NOT NULL,                          -- bytes of body
    answer    TEXT NOT NULL,                             -- JSON: what the headers said
    body      BLOB,                                      -- gzip; NULL: the run withholds all of them
    accepted  INTEGER NOT NULL DEFAULT 0                 -- the run takes it as an edit
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
    no     INTEGER PRIMARY KEY,                          -- record.no
    first  INTEGER NOT NULL,
    second INTEGER,
    third  INTEGER,
    fourth INTEGER,
    fifth  INTEGER
)
