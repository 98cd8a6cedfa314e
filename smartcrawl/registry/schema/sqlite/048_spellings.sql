-- Other spellings under which an address was linked, beside its request address (ADR 95).
-- A record that was linked under its request address alone has no row.
CREATE TABLE spelling (
    no        INTEGER PRIMARY KEY,                   -- record.no
    urls      TEXT NOT NULL DEFAULT '[]',            -- JSON: at most three, the newest first
    met_run   INTEGER NOT NULL DEFAULT 0,            -- run that met the last of them first
    displaced INTEGER NOT NULL DEFAULT 0,           -- whether a fourth one was dropped
    tried     TEXT NOT NULL DEFAULT '[]',            -- JSON [[url, status, message], ...] of a visit
    tried_run INTEGER NOT NULL DEFAULT 0,            -- run of that visit
    tried_at  INTEGER
)
--;
CREATE INDEX spelling_met ON spelling (met_run)
--;
-- Whether the links that older versions stored were searched for spellings.
ALTER TABLE source ADD COLUMN spelled INTEGER NOT NULL DEFAULT 0
