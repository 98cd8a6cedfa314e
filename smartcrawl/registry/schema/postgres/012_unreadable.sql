-- Bodies that a version of the extraction cannot read, and does not try again.
CREATE TABLE unreadable (
    body_hash  BYTEA NOT NULL,                           -- SHA-256
    extraction BIGINT NOT NULL,                          -- EXTRACTION_VERSION
    media      TEXT NOT NULL,                            -- MIME type used, and a charset of the server
    fault      BIGINT NOT NULL,                          -- rules.model.Fault
    allowed    BIGINT NOT NULL,                          -- seconds or MiB that were too few, or 0
    message    TEXT NOT NULL,
    at         BIGINT NOT NULL,                          -- Unix seconds of the last visit
    PRIMARY KEY (body_hash, extraction, media)
)
