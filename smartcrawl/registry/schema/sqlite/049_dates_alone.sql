-- Coded ETags that were asked in both spellings in vain, since one was answered 304 (docs/adr/0105).
ALTER TABLE trust ADD COLUMN unheard INTEGER NOT NULL DEFAULT 0
--;
-- Only 304s of pages that rotated count against rotation (docs/adr/0036).
UPDATE trust SET matched = 0
--;
ALTER TABLE trust DROP COLUMN matched_before
