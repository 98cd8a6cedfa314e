-- The record (record.no) of the former address of a renamed file (ADR 65).
ALTER TABLE record ADD COLUMN moved_from BIGINT
