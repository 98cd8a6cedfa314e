-- Entries of files_metadata.json as they were last written, from which a damaged file is rebuilt (ADR 86).
CREATE TABLE library_metadata (
    domain         TEXT NOT NULL,                        -- domain_id
    position       BIGINT NOT NULL,                     -- in the array, from 0
    openai_file_id TEXT,                                 -- NULL: it is an entry of another tool
    entry          TEXT NOT NULL,                        -- JSON
    PRIMARY KEY (domain, position)
)
--;
CREATE INDEX library_metadata_file ON library_metadata (domain, openai_file_id)
