-- What a page says of its pictures is searched with the chunk in which they stand (ADR 158).
ALTER TABLE chunk ADD COLUMN pictures TEXT NOT NULL DEFAULT ''
