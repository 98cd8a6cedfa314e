-- Files of listed sources: those with the bytes of a stored one are not extracted again
-- (docs/adr/0069).

-- Type as which the stored body was read, with a charset that its store named (extract.documents).
-- NULL: a page of a web site, not indexed, or stored before schema 30.
ALTER TABLE record ADD COLUMN media TEXT
--;
CREATE INDEX record_body ON record (source, body_hash) WHERE media IS NOT NULL
