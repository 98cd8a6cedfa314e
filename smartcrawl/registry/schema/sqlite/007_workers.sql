-- What tells the language of a page, so that it is not told again where the text is the same.

-- Digest of the text that told content.language; NULL: content of before schema 7.
ALTER TABLE content ADD COLUMN sample BLOB
--;
-- What there is by now, under a name that both databases know.
CREATE VIEW relation (name) AS SELECT name FROM sqlite_schema
--;
-- content.no of what an index elsewhere holds of the page (index/writing.py).
ALTER TABLE record ADD COLUMN sunk INTEGER
--;
CREATE INDEX record_sunk ON record (sunk) WHERE sunk IS NOT NULL
--;
-- Pages that such an index refused as they are.
CREATE TABLE dead_letter (
    no     INTEGER PRIMARY KEY,                          -- record.no
    number INTEGER NOT NULL,                             -- claim number of the try
    at     INTEGER NOT NULL,                             -- Unix seconds
    reason TEXT NOT NULL
)
