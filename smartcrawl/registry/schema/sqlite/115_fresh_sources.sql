-- The facts that decide whether a source is due, without opening a run (ADR 173).
-- Unix seconds: its last complete run, or the last time that nothing of it was overdue; NULL: never
ALTER TABLE source ADD COLUMN fresh_at INTEGER
--;
-- SHA-256 of keys and settings of the run that left nothing overdue (run.configuration)
ALTER TABLE source ADD COLUMN configuration BLOB
--;
UPDATE source SET fresh_at = (
    SELECT max(u.finished_at) FROM run u WHERE u.source = source.no AND u.complete > 0)
