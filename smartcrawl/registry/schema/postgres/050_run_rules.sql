-- Digests of the scope and rules that the workers of a run agree on, JSON by key (ADR 127).
ALTER TABLE run ADD COLUMN rules TEXT NOT NULL DEFAULT '{}'
