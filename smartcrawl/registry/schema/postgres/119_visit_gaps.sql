-- How often pages change, for visits within a budget (ADR 181).
-- Seconds from the visit before to the one that found the change; NULL: not known
ALTER TABLE change ADD COLUMN visit_gap BIGINT
--;
DROP INDEX change_record
--;
-- It has all that the history of a page needs.
CREATE INDEX change_record ON change (record, run, at, visit_gap)
