-- What tells the language of a page, so that it is not told again where the text is the same.

-- Digest of the text that told content.language; NULL: content of before schema 7.
ALTER TABLE content ADD COLUMN sample BLOB
--;
-- What there is by now, under a name that both databases know.
CREATE VIEW relation (name) AS SELECT name FROM sqlite_schema
