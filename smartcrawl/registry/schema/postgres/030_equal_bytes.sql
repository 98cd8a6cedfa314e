-- Files of listed sources: those with the bytes of a stored one are not extracted again
-- (ADR 69), and those that cannot be read are not read again (ADR 40).

-- Type as which the stored body was read, with a charset that its store named (extract.documents).
-- NULL: a page of a web site, not indexed, or stored before schema 30.
ALTER TABLE record ADD COLUMN media TEXT
--;
CREATE INDEX record_body ON record (source, body_hash) WHERE media IS NOT NULL
--;
-- Validator and bytes of the file that could not be read at the last visit, and the
-- EXTRACTION_VERSION that tried; NULL: a page of a web site, or another outcome.
ALTER TABLE record ADD COLUMN unread_etag TEXT
--;
ALTER TABLE record ADD COLUMN unread_length BIGINT
--;
ALTER TABLE record ADD COLUMN unread_extraction INTEGER
