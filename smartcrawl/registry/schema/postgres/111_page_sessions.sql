-- Sessions of pages in a browser (ADR 167): each has the rights of its key, and ends with it.
CREATE TABLE page_session (
    hash BYTEA PRIMARY KEY,                            -- SHA-256 of the cookie
    key  TEXT NOT NULL,                                -- api_key.id
    ends BIGINT NOT NULL                               -- Unix seconds
)
--;
CREATE INDEX page_session_ends ON page_session (ends)
