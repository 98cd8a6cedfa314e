-- The commit that the last listing of a repository found, as JSON (ADR 67): its ETag lets the
-- next run confirm the same entries with one request. NULL: a source of another kind.
ALTER TABLE source ADD COLUMN listing TEXT
