-- When a page was published and who wrote it, where it says so (ADR 155): Unix seconds; '': not known.
ALTER TABLE content ADD COLUMN published BIGINT
--;
ALTER TABLE content ADD COLUMN author TEXT NOT NULL DEFAULT ''
