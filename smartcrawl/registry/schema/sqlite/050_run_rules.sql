-- Digests of the scope and rules that the workers of a run agree on, JSON by key (docs/adr/0127).
ALTER TABLE run ADD COLUMN rules TEXT NOT NULL DEFAULT '{}'
