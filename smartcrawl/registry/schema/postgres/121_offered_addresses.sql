-- Addresses of a notice that no record has yet (ADR 176).
-- FALSE: the next run of the source requests it, and it is no seed afterwards
ALTER TABLE pending_pin ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT TRUE
