-- Marks about the ETag of a page: bits of rules.trust (items.Page.etag_marks).
ALTER TABLE state ADD COLUMN etag_marks INTEGER NOT NULL DEFAULT 0
--;
-- 304s that named another version than the one that was asked about.
ALTER TABLE trust ADD COLUMN contradictory INTEGER NOT NULL DEFAULT 0
--;
-- Rotation is judged by one run: repeated and rotated are counts of it.
-- run.no of the last run that learnt something
ALTER TABLE trust ADD COLUMN run INTEGER NOT NULL DEFAULT 0
--;
-- 1: an If-None-Match was answered 304 in it
ALTER TABLE trust ADD COLUMN matched INTEGER NOT NULL DEFAULT 0
--;
-- likewise in the run before
ALTER TABLE trust ADD COLUMN matched_before INTEGER NOT NULL DEFAULT 0
--;
-- Sites that had been rebuilt counted as rotating: they are believed again.
UPDATE trust
   SET repeated = 0, rotated = 0,
       distrusted_at = CASE WHEN (frozen >= 2 AND frozen * 20 >= etags)
                              OR (false_dates >= 2 AND false_dates * 20 >= dates)
                              OR (ignored >= 2 AND honoured = 0) THEN distrusted_at END
