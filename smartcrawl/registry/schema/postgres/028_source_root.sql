-- The root of a listed source that no file declares, as a URL (FilesSource.root): its next run lists
-- it from there. A web site has its start addresses instead; NULL for both, and for declared ones.
ALTER TABLE source ADD COLUMN root TEXT
