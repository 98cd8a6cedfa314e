-- Other spellings under which an address was linked, beside its request address (ADR 95).
-- A record that was linked under its request address alone has no row.
CREATE TABLE spelling (
    no        BIGINT PRIMARY KEY,                    -- record.no
    urls      TEXT NOT NULL DEFAULT '[]',            -- JSON: at most three, the newest first
    met_run   BIGINT NOT NULL DEFAULT 0,             -- run that met the last of them first
    displaced BOOLEAN NOT NULL DEFAULT FALSE,       -- whether a fourth one was dropped
    tried     TEXT NOT NULL DEFAULT '[]',            -- JSON [[url, status, message], ...] of a visit
    tried_run BIGINT NOT NULL DEFAULT 0,             -- run of that visit
    tried_at  BIGINT
)
--;
CREATE INDEX spelling_met ON spelling (met_run)
--;
-- Whether the links that older versions stored were searched for spellings.
ALTER TABLE source ADD COLUMN spelled BOOLEAN NOT NULL DEFAULT FALSE
