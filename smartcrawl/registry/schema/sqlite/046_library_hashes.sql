-- SHA-256 of the bytes of an item as they came; NULL: stored by an older version. It does not depend
-- on whether their text can be read.
ALTER TABLE library_item ADD COLUMN body_hash BLOB
