-- The order to an open run, and when it came (rules.model.RunOrder; ADR 56). It stays with the
-- run that it ended, until an explicit resume withdraws it.
ALTER TABLE run ADD COLUMN requested TEXT
--;
ALTER TABLE run ADD COLUMN requested_at INTEGER
