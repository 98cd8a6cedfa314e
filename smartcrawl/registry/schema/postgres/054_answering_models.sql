-- The name of the model that a server answered with; NULL: it gave none, or an older version did not note it.
ALTER TABLE embedder ADD COLUMN answered TEXT
