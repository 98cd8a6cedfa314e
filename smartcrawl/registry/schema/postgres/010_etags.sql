-- Marks about the ETag of a page: bits of rules.trust (items.Page.etag_marks).
ALTER TABLE state ADD COLUMN etag_marks INTEGER NOT NULL DEFAULT 0
--;
-- 304s that named another version than the one that was asked about.
ALTER TABLE trust ADD COLUMN contradictory INTEGER NOT NULL DEFAULT 0
