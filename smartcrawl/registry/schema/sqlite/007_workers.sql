-- Digest of a page's language sample, so that an unchanged text is not detected again.

-- Digest of the text that gave content.language; NULL: content from before schema 7.
ALTER TABLE content ADD COLUMN sample BLOB
--;
-- All relations, under a name that both databases know.
CREATE VIEW relation (name) AS SELECT name FROM sqlite_schema
--;
-- content.no of the page in an external index (index/writing.py).
ALTER TABLE record ADD COLUMN sunk INTEGER
--;
CREATE INDEX record_sunk ON record (sunk) WHERE sunk IS NOT NULL
--;
-- Pages that an external index refused.
CREATE TABLE dead_letter (
    no     INTEGER PRIMARY KEY,                          -- record.no
    number INTEGER NOT NULL,                             -- claim number of the attempt
    at     INTEGER NOT NULL,                             -- Unix seconds
    reason TEXT NOT NULL
)
