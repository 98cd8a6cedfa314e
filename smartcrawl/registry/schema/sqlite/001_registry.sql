-- Registry, first layout (ADR 129). Times are Unix seconds, UTC; hashes and ids are blobs.
-- One statement ends at each line that holds only "--;".

CREATE TABLE sequence (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID
--;
INSERT INTO sequence (name, value) VALUES ('number', 0), ('address', 0)
--;
CREATE TABLE source (
    no         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    created_at INTEGER NOT NULL
)
--;
CREATE TABLE host (
    no                INTEGER PRIMARY KEY,
    name              TEXT NOT NULL UNIQUE,          -- host, or host:port beside 80 and 443
    display           TEXT,                          -- in Unicode; NULL if the spelling is the same
    pages_crawled     INTEGER NOT NULL DEFAULT 0,
    pages_failed      INTEGER NOT NULL DEFAULT 0,
    bytes_downloaded  INTEGER NOT NULL DEFAULT 0,
    response_ms       INTEGER NOT NULL DEFAULT 0,    -- sum over answered pages
    first_crawled_at  INTEGER,
    last_crawled_at   INTEGER,
    robots_fetched_at INTEGER,
    robots_hash       BLOB,
    crawl_delay_ms    INTEGER NOT NULL DEFAULT 1000,
    is_blocked        INTEGER NOT NULL DEFAULT 0,
    block_reason      TEXT
)
--;
-- Fingerprints of scopes and of extraction settings, as small integers.
CREATE TABLE fingerprint (
    no   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE
)
--;
CREATE TABLE run (
    no                   INTEGER PRIMARY KEY,
    source               INTEGER NOT NULL REFERENCES source (no),
    state                INTEGER NOT NULL DEFAULT 0, -- rules.model.RunState
    number               INTEGER NOT NULL,           -- claim number of its open or last resume
    complete             INTEGER NOT NULL DEFAULT 0,
    forced               INTEGER NOT NULL DEFAULT 0,
    reasons              TEXT NOT NULL DEFAULT '[]', -- JSON: why it is incomplete
    counts               TEXT NOT NULL DEFAULT '{}', -- JSON: records by lastOutcome at the end
    started_at           INTEGER NOT NULL,
    finished_at          INTEGER,
    visits               INTEGER NOT NULL DEFAULT 0,
    unreachable          INTEGER NOT NULL DEFAULT 0,
    requests             INTEGER NOT NULL DEFAULT 0,
    conditional_requests INTEGER NOT NULL DEFAULT 0,
    not_modified         INTEGER NOT NULL DEFAULT 0,
    bytes_downloaded     INTEGER NOT NULL DEFAULT 0,
    bytes_saved          INTEGER NOT NULL DEFAULT 0
)
--;
CREATE INDEX run_source ON run (source, no)
--;
-- Start addresses of a run; before the seal it is checked that every seed answered.
CREATE TABLE seed (
    run  INTEGER NOT NULL REFERENCES run (no),
    no   INTEGER NOT NULL,                           -- record.no
    PRIMARY KEY (run, no)
) WITHOUT ROWID
--;
CREATE TABLE record (
    no               INTEGER PRIMARY KEY,            -- number of the address, in order of discovery
    source           INTEGER NOT NULL,
    id               BLOB NOT NULL,                  -- SHA-256 of the normalized source
    url              TEXT NOT NULL,                  -- as last requested
    identity         TEXT,                           -- normalized source; NULL if equal to url
    host             INTEGER NOT NULL,
    discovered_from  INTEGER,                        -- record.no of the page that linked first
    first_run        INTEGER NOT NULL,
    first_seen       INTEGER NOT NULL,
    -- of the stored body
    etag             TEXT,                           -- as received, byte for byte
    last_modified    TEXT,                           -- as received
    content          INTEGER,                        -- content.no; NULL if only links are stored
    content_hash     BLOB,                           -- only where content is NULL
    text_hash        BLOB,                           -- only where content is NULL
    body_hash        BLOB,
    content_type     TEXT,
    content_length   INTEGER,                        -- bytes on the wire
    content_encoding TEXT,
    configuration    INTEGER,                        -- fingerprint.no of the extraction
    changed_run      INTEGER,                        -- run that gave this content to this page
    duplicate_of     INTEGER,                        -- record.no of the original
    canonical_url    TEXT,
    redirect_target  TEXT,                           -- absolute URL of the last redirect
    redirect_no      INTEGER,                        -- its record.no, if it is in scope
    last_changed     INTEGER,
    last_indexed     INTEGER,
    error_message    TEXT
)
--;
CREATE UNIQUE INDEX record_id ON record (source, id)
--;
CREATE INDEX record_content ON record (content) WHERE content IS NOT NULL
--;
-- Narrow, integers only, without index: a 304 updates only this table.
CREATE TABLE state (
    no               INTEGER PRIMARY KEY,
    reached_run      INTEGER NOT NULL,               -- pending: reached_run = R and visited_run < R
    visited_run      INTEGER NOT NULL DEFAULT 0,
    seen_run         INTEGER NOT NULL DEFAULT 0,     -- last run reached and allowed
    number           INTEGER NOT NULL DEFAULT 0,     -- claim number of the last commit
    intent           INTEGER NOT NULL DEFAULT 0,     -- dirty while intent > number (remote sinks)
    depth            INTEGER NOT NULL,
    status           INTEGER NOT NULL DEFAULT 0,     -- rules.model.Status
    standing         INTEGER NOT NULL DEFAULT 0,     -- rules.model.Standing
    outcome          INTEGER,                        -- rules.model.Word
    http_status      INTEGER,                        -- or extended status, 1000 to 1299
    effective_status INTEGER,
    last_checked     INTEGER,
    next_visit       INTEGER,
    lost_count       INTEGER NOT NULL DEFAULT 0,
    gone_count       INTEGER NOT NULL DEFAULT 0,
    unchanged_count  INTEGER NOT NULL DEFAULT 0,
    error_count      INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0
)
--;
CREATE TABLE links (
    no       INTEGER PRIMARY KEY,
    scope    INTEGER NOT NULL,                       -- fingerprint.no that targets were filtered by; 0 = none
    count    INTEGER NOT NULL,                       -- number of links in raw
    targets  BLOB NOT NULL,                          -- packed uint32 numbers, a cache
    raw      BLOB NOT NULL                           -- zstd of JSON [[url, anchor, type, nofollow], ...]
)
--;
CREATE TABLE content (
    no           INTEGER PRIMARY KEY,
    source       INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    text_hash    BLOB NOT NULL,
    text_length  INTEGER NOT NULL,                   -- characters
    title        TEXT NOT NULL,
    description  TEXT NOT NULL,
    language     TEXT NOT NULL,
    charset      TEXT NOT NULL,
    document     BLOB NOT NULL,                      -- zstd of JSON {sections, images}
    UNIQUE (source, content_hash)
)
