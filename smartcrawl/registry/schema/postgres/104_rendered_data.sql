-- Requests for data that rendered pages made, with their last answers (ADR 149).
CREATE TABLE data_request (
    no            BIGINT PRIMARY KEY,                  -- of a digest of source, method, address, headers and body
    source        BIGINT NOT NULL,                     -- source.no
    method        TEXT NOT NULL,                       -- GET or POST
    url           TEXT NOT NULL,                       -- {s} and {ms} stand for the time
    kind          TEXT NOT NULL,                       -- Document, Script, Worker, XHR or Fetch
    headers       TEXT NOT NULL,                       -- JSON, of the request
    body          TEXT NOT NULL,                       -- of the request
    has_cookie    BOOLEAN NOT NULL DEFAULT FALSE,      -- whether its page sent it with a cookie
    status        INTEGER NOT NULL,
    etag          TEXT,
    last_modified TEXT,
    digest        BYTEA NOT NULL,                      -- SHA-256 of the answer
    version       BIGINT NOT NULL,                     -- equal for answers that say the same
    leaves        BYTEA NOT NULL,                      -- digests of the values at the paths of a JSON text
    noise         TEXT NOT NULL DEFAULT '{}'           -- JSON: paths, and how often they were seen to be noise
)
--;
CREATE INDEX data_request_source ON data_request (source)
--;
-- What rendered pages were made of.
CREATE TABLE page_data (
    no        BIGINT PRIMARY KEY,                      -- record.no
    body_hash BYTEA NOT NULL,                          -- record.body_hash of the rendering; another one: it is of the past
    shown     BYTEA NOT NULL,                          -- digest of its text and links
    always    BOOLEAN NOT NULL DEFAULT FALSE,          -- whether it is rendered at each visit
    requests  BYTEA NOT NULL                           -- packed pairs: data_request.no and version
)
--;
-- Requests for data of rendered pages, which ``requests`` does not count.
ALTER TABLE run ADD COLUMN data_requests BIGINT NOT NULL DEFAULT 0
--;
-- Pages that a browser showed.
ALTER TABLE run ADD COLUMN renderings BIGINT NOT NULL DEFAULT 0
