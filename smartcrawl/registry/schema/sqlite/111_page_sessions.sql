-- Sessions of pages in a browser (ADR 167): each has the rights of its key, and ends with it.
CREATE TABLE page_session (
    hash BLOB PRIMARY KEY,                             -- SHA-256 of the cookie
    key  TEXT NOT NULL,                                -- api_key.id
    ends INTEGER NOT NULL                              -- Unix seconds
) WITHOUT ROWID
--;
CREATE INDEX page_session_ends ON page_session (ends)
