-- JSON: the hosts that the last run of a source may ask (rules.side_by_side); NULL: not known. While
-- that run is under way, no other process asks them for another source (ADR 173).
ALTER TABLE source ADD COLUMN hosts TEXT
