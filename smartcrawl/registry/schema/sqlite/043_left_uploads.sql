-- Uploads that were taken out of a vector store and that the account still has (ADR 97).
CREATE TABLE left_upload (
    url     TEXT NOT NULL,                               -- VECTOR_STORE_URL
    file    TEXT NOT NULL,                               -- id that the server gave
    name    TEXT NOT NULL,                               -- as sent
    size    INTEGER NOT NULL,                            -- bytes
    left_at INTEGER NOT NULL,                            -- Unix seconds
    PRIMARY KEY (url, file)
)
