-- Coded ETags that were asked in both spellings in vain, since one was answered 304 (ADR 105).
ALTER TABLE trust ADD COLUMN unheard INTEGER NOT NULL DEFAULT 0
--;
-- Only 304s of pages that rotated count against rotation (ADR 36).
UPDATE trust SET matched = 0
--;
ALTER TABLE trust DROP COLUMN matched_before
