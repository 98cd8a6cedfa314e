-- Lines that repeat on the pages of a host (ADR 151): JSON {pairs, places} with digests of lines.
CREATE TABLE site_list (
    source  INTEGER NOT NULL,                        -- source.no
    host    INTEGER NOT NULL,                        -- host.no
    version INTEGER NOT NULL,                        -- rises with each change of the entries
    run     INTEGER NOT NULL,                        -- run.no that made it
    pages   INTEGER NOT NULL,                        -- of the host, when it was made
    entries TEXT NOT NULL,
    PRIMARY KEY (source, host)
)
--;
-- The run after which the lists of a source were made last; 0: none was.
ALTER TABLE source ADD COLUMN list_run INTEGER NOT NULL DEFAULT 0
--;
-- JSON [[section, start, end], ...]: parts of the document that repeat on its host; end -1: a heading.
ALTER TABLE content ADD COLUMN marked TEXT NOT NULL DEFAULT ''
