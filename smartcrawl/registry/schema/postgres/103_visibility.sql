-- Who reads a source (ADR 147): public or private. One that has had a login is private.
ALTER TABLE source ADD COLUMN visibility TEXT NOT NULL DEFAULT 'public'
--;
UPDATE source SET visibility = 'private' WHERE name IN (SELECT source FROM login)
--;
CREATE INDEX source_private ON source (name) WHERE visibility = 'private'
--;
-- JSON: the names of the sources that a key reads; NULL: the public ones.
ALTER TABLE api_key ADD COLUMN sources TEXT
