-- Marks about the ETag of a page: bits of rules.trust (model.pages.Page.etag_marks).
ALTER TABLE state ADD COLUMN etag_marks INTEGER NOT NULL DEFAULT 0
--;
-- 304s with another ETag than that of the request.
ALTER TABLE trust ADD COLUMN contradictory INTEGER NOT NULL DEFAULT 0
--;
-- Rotation is judged within one run: repeated and rotated are its counts.
-- run.no of the last run with new observations
ALTER TABLE trust ADD COLUMN run BIGINT NOT NULL DEFAULT 0
--;
-- 1: in that run an If-None-Match was answered with 304
ALTER TABLE trust ADD COLUMN matched INTEGER NOT NULL DEFAULT 0
--;
-- the same for the run before
ALTER TABLE trust ADD COLUMN matched_before INTEGER NOT NULL DEFAULT 0
--;
-- Rebuilt sites had been counted as rotating: they are trusted again.
UPDATE trust
   SET repeated = 0, rotated = 0,
       distrusted_at = CASE WHEN (frozen >= 2 AND frozen * 20 >= etags)
                              OR (false_dates >= 2 AND false_dates * 20 >= dates)
                              OR (ignored >= 2 AND honoured = 0) THEN distrusted_at END
