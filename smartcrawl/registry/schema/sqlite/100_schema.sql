-- The registry in SQLite (ADR 129, 140). Times are Unix seconds in UTC, where nothing else is said; hashes and ids
-- are bytes, flags 0 or 1. One statement ends at each line that holds only "--;".

-- Sources and their runs

-- Numbers that are given out: of claims, and of addresses (record.no).
CREATE TABLE sequence (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID
--;
INSERT INTO sequence (name, value) VALUES ('number', 0), ('address', 0)
--;
-- Choices of the operator that views depend on: partition (REGISTRY_PARTITION_STRATEGY), index
-- identity.
CREATE TABLE choice (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID
--;
-- Crawled sources, as sources.toml or an ad-hoc crawl names them.
CREATE TABLE source (
    no         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,                          -- site, github, files …
    created_at INTEGER NOT NULL,                       -- Unix seconds, as all times here
    declared   INTEGER NOT NULL DEFAULT 0,             -- whether sources.toml declared it at its last crawl
    -- URL of a listed source that no file declares (FilesSource.root)
    root       TEXT,
    -- JSON: commit and ETag of a repository's last listing (ADR 67)
    listing    TEXT 
)
--;
-- Fingerprints of scopes and of extraction settings, as small integers.
CREATE TABLE fingerprint (
    no         INTEGER PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    extraction INTEGER                                 -- EXTRACTION_VERSION of a configuration; NULL: a scope
)
--;
-- Runs of a source. The counts are of its pages and requests; those that batches add up need no
-- scan (ADR 58).
CREATE TABLE run (
    no                   INTEGER PRIMARY KEY,
    source               INTEGER NOT NULL REFERENCES source (no),
    state                INTEGER NOT NULL DEFAULT 0,   -- rules.model.RunState
    number               INTEGER NOT NULL,             -- claim number of its open or last resume
    complete             INTEGER NOT NULL DEFAULT 0,
    forced               INTEGER NOT NULL DEFAULT 0,
    reasons              TEXT NOT NULL DEFAULT '[]',   -- JSON: why it is incomplete
    counts               TEXT NOT NULL DEFAULT '{}',   -- JSON: records by lastOutcome at the end
    started_at           INTEGER NOT NULL,
    finished_at          INTEGER,
    visits               INTEGER NOT NULL DEFAULT 0,
    unreachable          INTEGER NOT NULL DEFAULT 0,
    requests             INTEGER NOT NULL DEFAULT 0,
    conditional_requests INTEGER NOT NULL DEFAULT 0,
    not_modified         INTEGER NOT NULL DEFAULT 0,
    bytes_downloaded     INTEGER NOT NULL DEFAULT 0,
    bytes_saved          INTEGER NOT NULL DEFAULT 0,
    removed              INTEGER NOT NULL DEFAULT 0,   -- pages
    withheld             INTEGER NOT NULL DEFAULT 0,   -- removals that wait for approval
    notes                TEXT NOT NULL DEFAULT '[]',   -- JSON: ignored answers and links, and why
    cut                  TEXT NOT NULL DEFAULT '{}',   -- JSON {reasons, refused}: what it has not seen so far
    due                  INTEGER NOT NULL DEFAULT 0,   -- whether it requested only due pages
    reextracted          INTEGER NOT NULL DEFAULT 0,   -- pages that were read again
    job                  TEXT,                         -- workers with the same job name share a run
    edits                INTEGER NOT NULL DEFAULT 0,   -- collapsed pages: 0 not decided, -1 withheld, else edits
    -- an order to it (rules.model.RunOrder; ADR 56), until a resume withdraws it
    requested            TEXT,
    requested_at         INTEGER,
    queued               INTEGER NOT NULL DEFAULT 0,
    hosts                INTEGER NOT NULL DEFAULT 0,
    words                TEXT NOT NULL DEFAULT '{}',   -- JSON: visited pages by lastOutcome
    -- JSON [[time, visits, bytes_downloaded], ...] of a minute (rules.rate)
    marks                TEXT NOT NULL DEFAULT '[]',
    embedded             INTEGER,                      -- chunks that got a vector in it; NULL: without an embedder
    owed                 INTEGER,                      -- chunks of its source without a vector at its end
    rules                TEXT NOT NULL DEFAULT '{}'    -- JSON: digests of what its workers agree on (ADR 127)
)
--;
CREATE INDEX run_source ON run (source, no)
--;
-- Hosts that a run has visited so far; no rows of a run that is over.
CREATE TABLE run_host (
    run  INTEGER NOT NULL REFERENCES run (no),
    host INTEGER NOT NULL,                             -- host.no
    PRIMARY KEY (run, host)
) WITHOUT ROWID
--;
-- Start addresses of a run; before the seal it is checked that every seed answered.
CREATE TABLE seed (
    run    INTEGER NOT NULL REFERENCES run (no),
    no     INTEGER NOT NULL,                           -- record.no
    pinned INTEGER NOT NULL DEFAULT 0,                 -- registry.runs.runs.Role
    PRIMARY KEY (run, no)
) WITHOUT ROWID
--;
-- Pages registered by hand: seeds of their source until they are forgotten.
CREATE TABLE pin (
    no       INTEGER PRIMARY KEY,                      -- record.no
    source   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    priority INTEGER NOT NULL DEFAULT 5                -- among the pinned pages of its host (ADR 60)
)
--;
-- Addresses that were posted to be pinned; the next run of their source registers them.
CREATE TABLE pending_pin (
    source   TEXT NOT NULL,                            -- name; it may never have been crawled
    id       BLOB NOT NULL,                            -- as record.id
    url      TEXT NOT NULL,                            -- request URL
    host     TEXT NOT NULL,                            -- as host.name
    at       INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID
--;
CREATE INDEX pending_pin_id ON pending_pin (id)
--;
-- Addresses that were added over the HTTP API, until a run of their source registers them. A run
-- gives out numbers of its own, so that no other process may add an address to its source.
CREATE TABLE ordered_address (
    source TEXT NOT NULL,                              -- source.name
    id     BLOB NOT NULL,                              -- as record.id
    url    TEXT NOT NULL,
    forced INTEGER NOT NULL,                           -- orders to index it anew
    at     INTEGER NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID
--;
CREATE INDEX ordered_address_id ON ordered_address (id)
--;
-- Ordered runs of the pages of a source that are due, as long as they wait (ADR 61).
CREATE TABLE due_run (
    no     INTEGER PRIMARY KEY,
    source TEXT NOT NULL UNIQUE,                       -- source.name
    at     INTEGER NOT NULL                            -- it does not begin before
)
--;
-- The order to visit all pages again, carried out in steps; at most one row.
CREATE TABLE rebuild (
    no     INTEGER PRIMARY KEY,                        -- 1
    forced INTEGER NOT NULL,
    place  INTEGER NOT NULL,                           -- record.no up to which it is done
    last   INTEGER NOT NULL                            -- record.no up to which it goes
)
--;
-- Sources whose ids the next run computes anew, and merges what collides.
CREATE TABLE recompute (
    source TEXT PRIMARY KEY                            -- source.name
)
--;
-- Hosts

-- Hosts, with the figures of all runs and the robots.txt of the default port.
CREATE TABLE host (
    no                INTEGER PRIMARY KEY,
    name              TEXT NOT NULL UNIQUE,            -- host, or host:port beside 80 and 443
    display           TEXT,                            -- in Unicode; NULL if the spelling is the same
    pages_crawled     INTEGER NOT NULL DEFAULT 0,
    pages_failed      INTEGER NOT NULL DEFAULT 0,
    bytes_downloaded  INTEGER NOT NULL DEFAULT 0,
    response_ms       INTEGER NOT NULL DEFAULT 0,      -- sum over answered pages
    first_crawled_at  INTEGER,
    last_crawled_at   INTEGER,
    robots_fetched_at INTEGER,
    robots_hash       BLOB,                            -- SHA-256
    crawl_delay_ms    INTEGER NOT NULL DEFAULT 1000,
    is_blocked        INTEGER NOT NULL DEFAULT 0,
    block_reason      TEXT,
    -- last failed fetch of robots.txt; NULL: a later one succeeded
    robots_failed_at  INTEGER,
    robots_error      TEXT,
    retry_after       INTEGER,                         -- its last Retry-After: seconds, and time
    retry_after_at    INTEGER
)
--;
CREATE INDEX host_crawled ON host (last_crawled_at)
--;
-- Hosts of the open runs, as of the last batch.
CREATE TABLE host_now (
    host         INTEGER PRIMARY KEY REFERENCES host (no),
    run          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    delay_ms     INTEGER NOT NULL,
    in_flight    INTEGER NOT NULL,
    parked_until INTEGER,                              -- the host does not answer
    paused_until INTEGER,                              -- as Retry-After requires
    is_down      INTEGER NOT NULL DEFAULT 0            -- given up for the run
)
--;
-- Trust in the validators of a host, from its answers (rules.trust). Counts are pages; repeated
-- and rotated are those of one run.
CREATE TABLE trust (
    host          INTEGER PRIMARY KEY REFERENCES host (no),
    etags         INTEGER NOT NULL,
    frozen        INTEGER NOT NULL,
    dates         INTEGER NOT NULL,
    false_dates   INTEGER NOT NULL,
    repeated      INTEGER NOT NULL,
    rotated       INTEGER NOT NULL,
    ignored       INTEGER NOT NULL,
    honoured      INTEGER NOT NULL,
    distrusted_at INTEGER,                             -- start of the distrust; NULL: fully trusted
    contradictory INTEGER NOT NULL DEFAULT 0,          -- 304s with another ETag than that of the request
    run           INTEGER NOT NULL DEFAULT 0,          -- run.no of the last run with new observations
    -- 304s to an If-None-Match of pages that rotated in that run (ADR 36)
    matched       INTEGER NOT NULL DEFAULT 0,
    -- coded ETags asked in both spellings in vain, since a 304 (ADR 105)
    unheard       INTEGER NOT NULL DEFAULT 0,
    rotating      INTEGER NOT NULL DEFAULT 0,          -- whether its ETags rotate (ADR 36)
    plain_unheard INTEGER NOT NULL DEFAULT 0,          -- ETags that are not coded, asked in vain (ADR 105)
    plain_heard   INTEGER NOT NULL DEFAULT 0           -- the same, answered 304
)
--;
-- Answer of a host for an address that cannot exist (rules.soft404); NULL: an error status.
CREATE TABLE not_found (
    host    INTEGER PRIMARY KEY REFERENCES host (no),
    at      INTEGER NOT NULL,                          -- Unix seconds
    profile TEXT
)
--;
-- The last readable robots.txt of each origin, used while it cannot be fetched.
CREATE TABLE robots (
    origin        TEXT PRIMARY KEY,                    -- scheme://host[:port]
    fetched_at    INTEGER NOT NULL,                    -- last 200, 304 or 4xx
    status        INTEGER NOT NULL,                    -- 200, or a 4xx that means "no rules"
    etag          TEXT,
    last_modified TEXT,
    body          BLOB NOT NULL                        -- at most 500 KiB
) WITHOUT ROWID
--;
-- Where the name of a seed led when it was first crawled (ADR 123).
CREATE TABLE seed_name (
    name  TEXT PRIMARY KEY,
    reach INTEGER NOT NULL                             -- 0 public, 1 private, 2 anywhere, as the operator said
) WITHOUT ROWID
--;
-- Pages

-- Addresses and, of those that were stored, the last body.
CREATE TABLE record (
    no                INTEGER PRIMARY KEY,             -- number of the address, in order of discovery
    source            INTEGER NOT NULL,
    id                BLOB NOT NULL,                   -- SHA-256 of the normalized source
    url               TEXT NOT NULL,                   -- as last requested
    identity          TEXT,                            -- normalized source; NULL if equal to url
    host              INTEGER NOT NULL,
    discovered_from   INTEGER,                         -- record.no of the page that linked first
    first_run         INTEGER NOT NULL,
    first_seen        INTEGER NOT NULL,
    -- of the stored body
    etag              TEXT,                            -- as received, byte for byte
    last_modified     TEXT,                            -- as received
    modified          TEXT,                            -- in ISO 8601; NULL: it is no date (rules.http)
    content           INTEGER,                         -- content.no; NULL if only links are stored
    content_hash      BLOB,                            -- only where content is NULL
    text_hash         BLOB,                            -- only where content is NULL
    body_hash         BLOB,
    content_type      TEXT,
    content_length    INTEGER,                         -- bytes on the wire
    content_encoding  TEXT,
    configuration     INTEGER,                         -- fingerprint.no of the extraction
    changed_run       INTEGER,                         -- run that gave this content to this page
    duplicate_of      INTEGER,                         -- record.no of the original
    canonical_url     TEXT,
    redirect_target   TEXT,                            -- absolute URL of the last redirect
    redirect_no       INTEGER,                         -- its record.no, if it is in scope
    last_changed      INTEGER,
    last_indexed      INTEGER,
    error_message     TEXT,
    -- in the index: 0 none, 1 its own, 2 kept from before it was lost
    entry             INTEGER NOT NULL DEFAULT 0,
    canonical_no      INTEGER,                         -- record.no of canonical_url: another page, in scope
    kind              INTEGER NOT NULL DEFAULT 0,      -- 0: a page; 1 to 3: a sitemap or feed, at this nesting
    snapshot          INTEGER,                         -- snapshot.no of the stored body
    verified_at       INTEGER,                         -- last downloaded body; confirmations do not count
    signs             INTEGER NOT NULL DEFAULT 0,      -- bits of model.pages.PageRecord.signs
    mode              INTEGER NOT NULL DEFAULT 0,      -- rules.model.Mode of the page in the index
    sunk              INTEGER,                         -- content.no of the page in an index elsewhere
    first_indexed     INTEGER,
    moved_from        INTEGER,                         -- record.no of the former address of a renamed file (ADR 65)
    -- type and charset as which a file was read (ADR 69); NULL: of a web site
    media             TEXT,
    -- of a file that could not be read at the last visit, and what tried (ADR 40)
    unread_etag       TEXT,
    unread_length     INTEGER,                         -- bytes
    unread_extraction INTEGER,                         -- EXTRACTION_VERSION
    sunk_vectors      INTEGER NOT NULL DEFAULT 0       -- chunks with a vector in the index elsewhere; -1: not known
)
--;
CREATE UNIQUE INDEX record_id ON record (source, id)
--;
CREATE INDEX record_content ON record (content) WHERE content IS NOT NULL
--;
CREATE INDEX record_clone ON record (duplicate_of) WHERE duplicate_of IS NOT NULL
--;
CREATE INDEX record_canonical ON record (canonical_no) WHERE canonical_no IS NOT NULL
--;
CREATE INDEX record_sitemap ON record (source) WHERE kind > 0
--;
CREATE INDEX record_snapshot ON record (snapshot) WHERE snapshot IS NOT NULL
--;
CREATE INDEX record_sunk ON record (sunk) WHERE sunk IS NOT NULL
--;
CREATE INDEX record_body ON record (source, body_hash) WHERE media IS NOT NULL
--;
-- Narrow, integers only, without index: a 304 updates only this table.
CREATE TABLE state (
    no               INTEGER PRIMARY KEY,
    reached_run      INTEGER NOT NULL,                 -- pending: reached_run = R and visited_run < R
    visited_run      INTEGER NOT NULL DEFAULT 0,
    seen_run         INTEGER NOT NULL DEFAULT 0,       -- last run reached and allowed
    number           INTEGER NOT NULL DEFAULT 0,       -- claim number of the last commit
    intent           INTEGER NOT NULL DEFAULT 0,       -- dirty while intent > number (remote sinks)
    depth            INTEGER NOT NULL,
    status           INTEGER NOT NULL DEFAULT 0,       -- rules.model.Status
    standing         INTEGER NOT NULL DEFAULT 0,       -- rules.model.Standing
    outcome          INTEGER,                          -- rules.model.Word
    http_status      INTEGER,                          -- or extended status, 1000 to 1299
    effective_status INTEGER,
    last_checked     INTEGER,
    next_visit       INTEGER,
    lost_count       INTEGER NOT NULL DEFAULT 0,
    gone_count       INTEGER NOT NULL DEFAULT 0,
    unchanged_count  INTEGER NOT NULL DEFAULT 0,
    error_count      INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    lost_since       INTEGER,                          -- first of the losses in lost_count
    last_answered    INTEGER,
    gone_since       INTEGER,                          -- first of the losses in gone_count
    interval         INTEGER,                          -- scheduled seconds until the next visit, before spreading
    etag_marks       INTEGER NOT NULL DEFAULT 0,       -- bits of rules.trust (model.pages.Page.etag_marks)
    failures         INTEGER NOT NULL DEFAULT 0,       -- failed visits, never reset; attempts counts all
    -- as record.host: one index has the documents of a host by time (ADR 55)
    host             INTEGER
)
--;
-- The last two columns let a count read the index alone.
CREATE INDEX state_checked ON state (last_checked, no, standing, effective_status)
 WHERE last_checked IS NOT NULL AND (standing > 0 OR effective_status IN (301, 302, 303, 307, 308))
--;
CREATE INDEX state_host_checked ON state (host, last_checked, no, standing, effective_status)
 WHERE last_checked IS NOT NULL AND (standing > 0 OR effective_status IN (301, 302, 303, 307, 308))
--;
-- The links of a page, in one row.
CREATE TABLE links (
    no      INTEGER PRIMARY KEY,
    scope   INTEGER NOT NULL,                          -- fingerprint.no that targets were filtered by; 0 = none
    count   INTEGER NOT NULL,                          -- number of links in raw
    targets BLOB NOT NULL,                             -- packed uint32 numbers, a cache
    raw     BLOB NOT NULL                              -- zstd of JSON [[url, anchor, type, nofollow], ...]
)
--;
-- Contents of pages; pages with equal ones share a row.
CREATE TABLE content (
    no           INTEGER PRIMARY KEY,
    source       INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    text_hash    BLOB NOT NULL,
    text_length  INTEGER NOT NULL,                     -- characters
    title        TEXT NOT NULL,
    description  TEXT NOT NULL,
    language     TEXT NOT NULL,
    charset      TEXT NOT NULL,
    document     BLOB NOT NULL,                        -- zstd of JSON {sections, images}
    image_count  INTEGER NOT NULL DEFAULT 0,
    sample       BLOB,                                 -- digest of the text that gave the language
    keywords     TEXT,                                 -- of <meta name=keywords>
    -- the text, where the index is elsewhere; NULL: it is in chunk
    txt          TEXT,
    UNIQUE (source, content_hash)
)
--;
CREATE INDEX content_without_text ON content (source) WHERE text_length = 0
--;
-- The last five texts of a page before its present one, newest first: the first eight bytes of
-- each text_hash, as a signed number.
CREATE TABLE former_text (
    no     INTEGER PRIMARY KEY,                        -- record.no
    first  INTEGER NOT NULL,
    second INTEGER,
    third  INTEGER,
    fourth INTEGER,
    fifth  INTEGER
)
--;
-- Other spellings under which an address was linked, beside its request address (ADR 95).
-- A record that was linked under its request address alone has no row.
CREATE TABLE spelling (
    no        INTEGER PRIMARY KEY,                     -- record.no
    urls      TEXT NOT NULL DEFAULT '[]',              -- JSON: at most three, the newest first
    met_run   INTEGER NOT NULL DEFAULT 0,              -- run that met the last of them first
    displaced INTEGER NOT NULL DEFAULT 0,              -- whether a fourth one was dropped
    tried     TEXT NOT NULL DEFAULT '[]',              -- JSON [[url, status, message], ...] of a visit
    tried_run INTEGER NOT NULL DEFAULT 0,              -- run of that visit
    tried_at  INTEGER
)
--;
CREATE INDEX spelling_met ON spelling (met_run)
--;
-- Pages of an open run that lost nearly all of their text, or got one that other pages got, too:
-- their answers wait until its queue is empty.
CREATE TABLE collapse (
    no           INTEGER PRIMARY KEY,                  -- record.no
    run          INTEGER NOT NULL,                     -- run.no
    text_hash    BLOB NOT NULL,                        -- of the new text
    size         INTEGER NOT NULL,                     -- bytes of body
    answer       TEXT NOT NULL,                        -- JSON: address and headers
    body         BLOB,                                 -- gzip; NULL: the run withholds all of them
    accepted     INTEGER NOT NULL DEFAULT 0,           -- the run accepts it as an edit
    shrank       INTEGER NOT NULL DEFAULT 1,           -- whether less than a tenth of the text is left
    repeated     INTEGER NOT NULL DEFAULT 0,           -- whether another page got the text, and does not wait
    content_hash BLOB                                  -- of the new content
)
--;
CREATE INDEX collapse_run ON collapse (run)
--;
-- Bodies that a version of the extraction cannot read, and does not try again.
CREATE TABLE unreadable (
    body_hash  BLOB NOT NULL,                          -- SHA-256
    extraction INTEGER NOT NULL,                       -- EXTRACTION_VERSION
    media      TEXT NOT NULL,                          -- MIME type used, and a charset of the server
    fault      INTEGER NOT NULL,                       -- rules.model.Fault
    allowed    INTEGER NOT NULL,                       -- seconds or MiB that were too few, or 0
    message    TEXT NOT NULL,
    at         INTEGER NOT NULL,                       -- Unix seconds of the last visit
    PRIMARY KEY (body_hash, extraction, media)
) WITHOUT ROWID
--;
-- Orders for single addresses (R0-29), and the number of writes of either.
CREATE TABLE item (
    no         INTEGER PRIMARY KEY,                    -- record.no
    requested  INTEGER NOT NULL DEFAULT 0,             -- reindexRequested
    generation INTEGER NOT NULL DEFAULT 0,             -- reindexGeneration
    processed  INTEGER NOT NULL DEFAULT 0,             -- the last generation that a visit fulfilled
    revision   INTEGER NOT NULL DEFAULT 0
)
--;
-- Times of detected changes, by which a schedule is measured.
CREATE TABLE change (
    no     INTEGER PRIMARY KEY,
    record INTEGER NOT NULL,                           -- record.no
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL                            -- Unix seconds
)
--;
CREATE INDEX change_record ON change (record)
--;
-- Changes of status and standing; a 304 adds no event.
CREATE TABLE event (
    no          INTEGER PRIMARY KEY,
    record      INTEGER NOT NULL,                      -- record.no
    run         INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    status      INTEGER NOT NULL,                      -- rules.model.Status after the event
    standing    INTEGER NOT NULL,
    outcome     INTEGER,
    http_status INTEGER,
    detail      TEXT
)
--;
CREATE INDEX event_record ON event (record)
--;
CREATE INDEX event_run ON event (run)
--;
-- Removal, and what an undo needs

-- Candidates for removal, one row a page. A withheld one stays until it is approved or refuted.
CREATE TABLE candidate (
    no       INTEGER PRIMARY KEY,                      -- record.no
    source   INTEGER NOT NULL,
    run      INTEGER NOT NULL,                         -- run.no of the first proposal
    renewed  INTEGER NOT NULL,                         -- run.no of the last proposal
    rule     INTEGER NOT NULL,                         -- rules.model.Rule
    detail   TEXT NOT NULL,                            -- JSON: the evidence
    probe    INTEGER,                                  -- (extended) status of the verification
    withheld INTEGER NOT NULL DEFAULT 0
)
--;
-- Removed pages, with the evidence and the data for an undo.
CREATE TABLE evidence (
    no      INTEGER PRIMARY KEY,
    record  INTEGER NOT NULL,                          -- record.no
    source  INTEGER NOT NULL,
    run     INTEGER NOT NULL,                          -- run.no of the sweep, or the last run before a command
    rule    INTEGER NOT NULL,                          -- rules.model.Rule
    at      INTEGER NOT NULL,
    detail  TEXT NOT NULL,                             -- JSON: the evidence
    content INTEGER,                                   -- content.no while an undo is possible
    restore TEXT,                                      -- JSON: former columns; NULL: expired
    links   BLOB,                                      -- former links.raw
    undone  INTEGER                                    -- time of the undo
)
--;
CREATE INDEX evidence_record ON evidence (record)
--;
CREATE INDEX evidence_run ON evidence (run)
--;
CREATE INDEX evidence_content ON evidence (content) WHERE content IS NOT NULL
--;
-- Stored bodies

-- Stores of bodies: each value that SNAPSHOT_STORE has had.
CREATE TABLE store (
    no  INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE
)
--;
-- Raw bodies, one copy each (M-48).
CREATE TABLE snapshot (
    no           INTEGER PRIMARY KEY,
    store        INTEGER NOT NULL,                     -- store.no
    body_hash    BLOB NOT NULL,
    path         TEXT NOT NULL,                        -- yyyy/mm/dd/url_hash.html.gz, below the store
    content_type TEXT,                                 -- header as received
    at           INTEGER NOT NULL,                     -- when it was stored, Unix seconds
    released     INTEGER,                              -- time of its release by the last page; NULL: in use
    UNIQUE (store, body_hash),
    UNIQUE (store, path)
)
--;
CREATE INDEX snapshot_released ON snapshot (released) WHERE released IS NOT NULL
--;
-- The index beside the registry (ADR 1), vectors, and what an index elsewhere has

-- Chunks of contents, the text of the embedded index.
CREATE TABLE chunk (
    no       INTEGER PRIMARY KEY,
    content  INTEGER NOT NULL,                         -- content.no
    position INTEGER NOT NULL,
    title    TEXT NOT NULL,
    headings TEXT NOT NULL,                            -- heading path, " > " between
    text     TEXT NOT NULL,
    level    INTEGER NOT NULL DEFAULT 0,               -- of its heading (ADR 70)
    types    TEXT NOT NULL DEFAULT 'text',             -- words of BLOCK_KINDS and "text", with commas between
    repeated INTEGER NOT NULL DEFAULT 0,               -- characters at its beginning that an earlier chunk has, too
    hash     BLOB                                      -- digest of title, headings and text (16 bytes)
)
--;
CREATE INDEX chunk_content ON chunk (content, position)
--;
CREATE INDEX chunk_hash ON chunk (hash)
--;
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, headings, text,
    content = 'chunk', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2'
)
--;
-- Merge index segments half as often as FTS5's default: a third less writing, the same results.
INSERT INTO chunk_words (chunk_words, rank) VALUES ('automerge', 8)
--;
-- Embedders that made vectors here. One of another model or dimension is another one, and no
-- number is used again (ADR 74).
CREATE TABLE embedder (
    no        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,                           -- EMBEDDER
    model     TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    whole_at  INTEGER,                                 -- last time that no chunk lacked its vector; NULL: never
    -- the folder of onnx, the address of openai; NULL: it needs none
    location  TEXT,
    answered  TEXT,                                    -- name of the model that a server answered with; NULL: none
    UNIQUE (name, model, dimension)
)
--;
-- Vectors of chunks, by chunk.hash: equal chunks of all sources have one.
CREATE TABLE vector (
    hash         BLOB NOT NULL,
    embedder     INTEGER NOT NULL,                     -- embedder.no
    vector       BLOB,                                 -- float32, little-endian; NULL: the text is refused
    refused      TEXT,                                 -- why there is no vector
    unused_since INTEGER,                              -- no chunk has the hash since; NULL: in use
    PRIMARY KEY (hash, embedder)
)
--;
-- The few vectors without a use are found without reading all vectors.
CREATE INDEX vector_unused ON vector (unused_since) WHERE unused_since IS NOT NULL
--;
-- The few texts that an embedder refused are found without reading all vectors.
CREATE INDEX vector_refused ON vector (embedder) WHERE refused IS NOT NULL
--;
-- Chunks that an index elsewhere has, where EMBEDDER is set (ADR 76). Those of a content without a
-- row are not known.
CREATE TABLE remote_chunk (
    content  INTEGER NOT NULL,                         -- content.no
    position INTEGER NOT NULL,
    hash     BLOB NOT NULL,                            -- digest of title, headings and text, as chunk.hash
    PRIMARY KEY (content, position)
) WITHOUT ROWID
--;
CREATE INDEX remote_chunk_hash ON remote_chunk (hash)
--;
-- Pages that an external index refused.
CREATE TABLE dead_letter (
    no     INTEGER PRIMARY KEY,                        -- record.no
    number INTEGER NOT NULL,                           -- claim number of the attempt
    at     INTEGER NOT NULL,                           -- Unix seconds
    reason TEXT NOT NULL
)
--;
-- Vector stores

-- Vector stores that pages are pushed to (ADR 77).
CREATE TABLE vector_store (
    no  INTEGER PRIMARY KEY,
    url TEXT NOT NULL,                                 -- VECTOR_STORE_URL
    id  TEXT NOT NULL,                                 -- VECTOR_STORE_ID
    UNIQUE (url, id)
)
--;
-- Files that were given to a store, or are about to be. A row is written before its upload.
CREATE TABLE store_file (
    intent       TEXT PRIMARY KEY,                     -- unique id of the upload, part of its name
    store        INTEGER NOT NULL,                     -- vector_store.no
    source       INTEGER NOT NULL,                     -- source.no
    no           INTEGER NOT NULL,                     -- record.no; 0: of a page that is not known
    url          TEXT NOT NULL,                        -- of the page in this file
    content_hash BLOB NOT NULL,                        -- of the page in this file
    body_hash    BLOB,                                 -- SHA-256 of the file; NULL: found in the store
    size         INTEGER,                              -- bytes of the file; NULL: found in the store
    name         TEXT NOT NULL,                        -- of the file, as sent
    file         TEXT,                                 -- id that the server gave; NULL: not known
    status       TEXT NOT NULL,                        -- intended, uploaded, attached, completed, leaving
    intended_at  INTEGER NOT NULL,
    -- digest of the four fields of an item (ADR 85); NULL: a page
    facts        BLOB,
    uploaded_at  INTEGER,
    embedded_at  INTEGER
)
--;
CREATE INDEX store_file_page ON store_file (store, source, no)
--;
-- Uploads that were taken out of a vector store and that the account still has (ADR 97).
CREATE TABLE left_upload (
    url     TEXT NOT NULL,                             -- VECTOR_STORE_URL
    file    TEXT NOT NULL,                             -- id that the server gave
    name    TEXT NOT NULL,                             -- as sent
    size    INTEGER NOT NULL,                          -- bytes
    left_at INTEGER NOT NULL,                          -- Unix seconds
    PRIMARY KEY (url, file)
)
--;
-- Vector stores that are made for domains; a row is written before the request.
CREATE TABLE domain_store (
    domain TEXT NOT NULL,
    url    TEXT NOT NULL,                              -- VECTOR_STORE_URL
    intent TEXT NOT NULL,                              -- unique id, in the metadata of the store
    id     TEXT,                                       -- that the server gave; NULL: not known
    PRIMARY KEY (domain, url)
)
--;
-- Document libraries

-- Items of document libraries, and where their files are (ADR 83).
CREATE TABLE library_item (
    no                  INTEGER PRIMARY KEY,           -- record.no
    source              INTEGER NOT NULL,              -- source.no
    listitem_id         INTEGER NOT NULL,
    unique_id           TEXT NOT NULL,                 -- GUID, lower case
    filename            TEXT NOT NULL,
    server_relative_url TEXT NOT NULL,                 -- decoded
    file_size           INTEGER NOT NULL,              -- bytes
    last_modified       INTEGER NOT NULL,              -- Unix microseconds
    path                TEXT,                          -- below the folder of the source; NULL: no file
    downloaded          INTEGER,                       -- Unix microseconds
    sharepoint_error    TEXT,
    processing_error    TEXT,
    body_hash           BLOB                           -- SHA-256 of its bytes as they came, readable or not
)
--;
CREATE INDEX library_item_source ON library_item (source, path)
--;
-- Renamings on disk that are under way: undone if their transaction is missing.
CREATE TABLE library_move (
    no     INTEGER PRIMARY KEY,                        -- record.no
    source INTEGER NOT NULL,                           -- source.no
    held   TEXT,                                       -- place of its bytes before; NULL: none
    staged TEXT,                                       -- name of new bytes in the incoming folder; NULL: none
    target TEXT                                        -- place of its bytes afterwards; NULL: none
)
--;
CREATE INDEX library_move_source ON library_move (source)
--;
-- Every address that an item of a library ever had: `why` finds its record by each.
CREATE TABLE library_address (
    url TEXT NOT NULL,
    no  INTEGER NOT NULL,                              -- record.no
    PRIMARY KEY (url, no)
)
--;
-- Drives of document libraries as they were at a delta token of Microsoft Graph (ADR 84).
CREATE TABLE library_drive (
    source  INTEGER PRIMARY KEY,                       -- source.no
    place   TEXT NOT NULL,                             -- JSON: API, app and library
    drive   TEXT NOT NULL,                             -- id
    root    TEXT NOT NULL,                             -- server relative URL of the library
    root_id TEXT NOT NULL,
    delta   TEXT NOT NULL,                             -- URL of the changes since
    items   INTEGER NOT NULL                           -- rows of library_drive_item
)
--;
-- The files and folders of a drive.
CREATE TABLE library_drive_item (
    source        INTEGER NOT NULL,                    -- source.no
    id            TEXT NOT NULL,                       -- of the drive
    parent        TEXT NOT NULL,                       -- id of its folder
    name          TEXT NOT NULL,                       -- as JSON: it may have NUL in it
    listitem_id   INTEGER,                             -- NULL, as all that follows: it is a folder
    unique_id     TEXT,
    file_size     INTEGER,                             -- bytes
    last_modified INTEGER,                             -- Unix microseconds
    PRIMARY KEY (source, id)
) WITHOUT ROWID
--;
-- Entries of files_metadata.json as they were last written, from which a damaged file is rebuilt
-- (ADR 86).
CREATE TABLE library_metadata (
    domain         TEXT NOT NULL,                      -- domain_id
    position       INTEGER NOT NULL,                   -- in the array, from 0
    openai_file_id TEXT,                               -- NULL: it is an entry of another tool
    entry          TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (domain, position)
)
--;
CREATE INDEX library_metadata_file ON library_metadata (domain, openai_file_id)
--;
-- Versions of items that a store could not embed: none is tried again before it changes.
CREATE TABLE embed_failure (
    no     INTEGER PRIMARY KEY,                        -- record.no
    source INTEGER NOT NULL,                           -- source.no
    facts  BLOB NOT NULL,                              -- as store_file.facts
    hash   BLOB NOT NULL,                              -- SHA-256 of the file
    error  TEXT NOT NULL
)
--;
CREATE INDEX embed_failure_source ON embed_failure (source)
--;
-- The HTTP API

-- Keys of the HTTP API (server/keys.py). The key itself is shown once, when it is made.
CREATE TABLE api_key (
    id      TEXT PRIMARY KEY,                          -- the part between sc_ and the secret
    name    TEXT NOT NULL,                             -- who has it, as the operator calls it
    scope   TEXT NOT NULL,                             -- read, operate or admin
    hash    BLOB NOT NULL,                             -- SHA-256 of the whole key
    created INTEGER NOT NULL,                          -- Unix seconds
    expires INTEGER,                                   -- Unix seconds; NULL: never
    revoked INTEGER                                    -- Unix seconds; NULL: it counts
)
--;
-- Replies to requests with an Idempotency-Key, for 24 hours (ADR 54). A row without status
-- exists only within the transaction that does the work.
CREATE TABLE reply (
    owner        TEXT NOT NULL,                        -- api_key.id; empty without a key
    method       TEXT NOT NULL,
    path         TEXT NOT NULL,
    key          TEXT NOT NULL,                        -- Idempotency-Key, in lower case
    request_hash BLOB NOT NULL,                        -- SHA-256 of the request
    created_at   INTEGER NOT NULL,
    status       INTEGER,
    headers      TEXT,                                 -- JSON
    body         TEXT,
    pending      INTEGER NOT NULL DEFAULT FALSE,       -- it waits for the effect of an order
    PRIMARY KEY (owner, method, path, key)
)
--;
CREATE INDEX reply_created ON reply (created_at)
--;
-- Jobs of the HTTP API: each is a source with settings and a schedule (ADR 50).
CREATE TABLE job (
    no           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,                 -- job_ and 16 hexadecimal digits
    name         TEXT NOT NULL,                        -- of its source
    version      INTEGER NOT NULL DEFAULT 1,           -- it grows with each new definition
    definition   TEXT NOT NULL,                        -- JSON: seed_urls, config, filters, schedule
    status       TEXT NOT NULL DEFAULT 'created',      -- rules.jobs.JobStatus
    complete     INTEGER,                              -- whether its last run saw everything
    reasons      TEXT NOT NULL DEFAULT '[]',           -- JSON: why not, or why it failed
    due_at       INTEGER,                              -- time of its next run; NULL: none
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,                              -- of its last run
    completed_at INTEGER,
    deleted_at   INTEGER,
    declared     INTEGER NOT NULL DEFAULT FALSE,       -- of a declared source: its definition is the schedule alone
    CONSTRAINT valid_job_status CHECK (status IN ('created', 'scheduled', 'running', 'paused',
                                                  'completed', 'failed', 'cancelled'))
)
--;
CREATE UNIQUE INDEX job_name ON job (name) WHERE deleted_at IS NULL
--;
CREATE INDEX job_due ON job (due_at) WHERE due_at IS NOT NULL
--;
-- One row for each time at which a job was due; a run stands for the times missed before it.
CREATE TABLE job_run (
    no            INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,                -- jb_ and 16 hexadecimal digits
    job           INTEGER NOT NULL REFERENCES job (no),
    due_at        INTEGER NOT NULL,
    fired_at      INTEGER NOT NULL,
    state         TEXT NOT NULL DEFAULT 'waiting',     -- server.jobs.job.RunStage
    run           INTEGER,                             -- run.no, once it is open
    exit_status   INTEGER,                             -- of its process; NULL: none, or it vanished
    reasons       TEXT NOT NULL DEFAULT '[]',          -- JSON
    ended_at      INTEGER,
    requested     TEXT,                                -- the order under way (ADR 57): pause, cancel or resume
    UNIQUE (job, due_at)
)
--;
CREATE INDEX job_run_open ON job_run (state, no) WHERE state IN ('waiting', 'running')
--;
-- Jobs of document libraries, ordered over HTTP: steps at the sources of a domain (ADR 87).
CREATE TABLE library_job (
    no            INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,                -- jb_ and 16 hexadecimal digits
    domain        TEXT NOT NULL,
    action        TEXT NOT NULL,                       -- crawl, download, process, embed
    choices       TEXT NOT NULL,                       -- JSON: server.jobs.library_job.LibraryChoices
    state         TEXT NOT NULL DEFAULT 'waiting',     -- server.jobs.job.RunStage
    requested     TEXT,                                -- an order that is under way
    run           INTEGER,                             -- run.no of the source that is crawled
    progress      TEXT NOT NULL DEFAULT '{}',          -- JSON: what a resumed job need not repeat
    result        TEXT,                                -- JSON, at its end
    reasons       TEXT NOT NULL DEFAULT '[]',          -- JSON: why it failed
    exit_status   INTEGER,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER
)
--;
CREATE INDEX library_job_open ON library_job (state, no) WHERE state IN ('waiting', 'running')
--;
-- Processes that servers have started: for runs of jobs, jobs of libraries and ordered runs (ADR 136).
-- Work has begun if it has a server; the work itself is a row of its own table.
CREATE TABLE process (
    kind          TEXT NOT NULL,                       -- registry.processes.ProcessKind
    id            TEXT NOT NULL,                       -- job_run.id, library_job.id, or the name of a source
    server        TEXT,                                -- that watches it (model.processes.Process)
    watched_at    INTEGER,                             -- last sign of life of that server
    host          TEXT,                                -- of the process, with its number and start; NULL: not known
    pid           INTEGER,
    process_start TEXT,
    starts        INTEGER NOT NULL DEFAULT 0,          -- processes so far
    starts_before INTEGER NOT NULL DEFAULT 0,          -- those before it was resumed last
    PRIMARY KEY (kind, id)
) WITHOUT ROWID
--;
-- All relations, under a name that both databases know.
CREATE VIEW relation (name) AS SELECT name FROM sqlite_schema
--;
-- The keys of the rows of "IngestItems": the first 26 characters of the lower-case base32 of the
-- id, five bits a character.
CREATE VIEW row_key (no, row_key) AS
-- First 26 characters of the lower-case base32 of the id: five bits a character.
SELECT r.no, (
    WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i < 25)
    SELECT group_concat(substr('abcdefghijklmnopqrstuvwxyz234567', 1 + ((
        ((instr('0123456789ABCDEF', substr(hex(r.id), 2 * (5 * i / 8) + 1, 1)) - 1) << 12)
      | ((instr('0123456789ABCDEF', substr(hex(r.id), 2 * (5 * i / 8) + 2, 1)) - 1) << 8)
      | ((instr('0123456789ABCDEF', substr(hex(r.id), 2 * (5 * i / 8) + 3, 1)) - 1) << 4)
      |  (instr('0123456789ABCDEF', substr(hex(r.id), 2 * (5 * i / 8) + 4, 1)) - 1)
    ) >> (11 - (5 * i) % 8)) % 32, 1), '') FROM place
) FROM record r
--;
-- Azure's blobs and shares are files, too, though they have web addresses. A container is the first
-- part of the path (model/file_urls.py has the same rules).
CREATE VIEW item_place (no, type, partition_key) AS
SELECT no,
       CASE WHEN scheme = '' OR is_web AND service IS NULL THEN 'url' ELSE 'file' END,
       CASE WHEN (SELECT value FROM choice WHERE name = 'partition') = 'scheme'
            THEN CASE WHEN service IS NOT NULL THEN service
                      WHEN scheme IN ('az', 'abfs', 'abfss', 'wasb', 'wasbs') THEN 'blob'
                      ELSE scheme END
            WHEN service IS NOT NULL
            THEN substr(host, 1, instr(host, '.') - 1) || '/' || substr(path, 1, instr(path || '/', '/') - 1)
            ELSE host END
  FROM (
SELECT no, scheme, is_web, host,
       CASE WHEN is_web THEN
            CASE substr(host, instr(host, '.') + 1)
                 WHEN 'blob.core.windows.net' THEN 'blob'
                 WHEN 'file.core.windows.net' THEN 'share' END END AS service,
       replace(substr(rest, instr(rest || '/', '/') + 1), '?', '/') AS path
  FROM (
SELECT r.no AS no, h.name AS host,
       substr(url, 1, instr(url, '://') - 1) AS scheme,
       url GLOB 'http://*' OR url GLOB 'https://*' AS is_web,
       substr(url, instr(url, '://') + 3) AS rest
  FROM (SELECT no, host, coalesce(identity, url) AS url FROM record) r JOIN host h ON h.no = r.host))
--;
-- The addresses of a redirect chain, itself first, at most six, and its end; a circle and a chain
-- that is too long have no end.
CREATE VIEW redirect_chain (no, chain, target) AS
SELECT no, chain, CASE WHEN json_array_length(chain) < 7 THEN json_extract(chain, '$[#-1]') END
  FROM (
SELECT r.no AS no, (
    WITH RECURSIVE hop (place, url, next) AS (
        SELECT 0, r.url, r.redirect_no
        UNION ALL SELECT 1, r.redirect_target, r.redirect_no
        UNION ALL SELECT hop.place + 1, t.redirect_target, t.redirect_no
                    FROM hop JOIN record t ON t.no = hop.next
                   WHERE hop.place BETWEEN 1 AND 5 AND t.redirect_target IS NOT NULL
    )
    SELECT json_group_array(url) FROM (SELECT url FROM hop WHERE place <= 6 ORDER BY place)
) AS chain FROM record r WHERE r.redirect_target IS NOT NULL)
--;
-- The fields of "IngestItems", by record number. After a 304 the status is that of the confirmed
-- answer. The document in the index is the page's own, or its original's. Items of document
-- libraries are files: their identity says so, and their URL does not.
CREATE VIEW ingest_entity AS
SELECT r.no AS no,
       p.partition_key AS "PartitionKey",
       k.row_key AS "RowKey",
       s.number || '.' || coalesce(i.revision, 0) AS "ETag",
       p.type || '_' || k.row_key AS "id",
       p.type AS "type",
       coalesce(r.identity, r.url) AS "normalizedSource",
       CASE WHEN h.display IS NULL THEN r.url
            ELSE replace(r.url, '://' || h.name, '://' || h.display) END AS "displaySource",
       CASE p.type WHEN 'url' THEN h.name END AS "sourceHost",
       NULL AS "parentPageId",
       CASE s.status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Crawled' WHEN 2 THEN 'Indexed'
                     WHEN 3 THEN 'Error' WHEN 4 THEN 'OutOfScope' ELSE 'Gone' END AS "status",
       coalesce(i.requested, 0) AS "reindexRequested",
       coalesce(i.generation, 0) AS "reindexGeneration",
       CASE p.type WHEN 'url' THEN r.etag END AS "httpEtag",
       CASE p.type WHEN 'url' THEN r.modified END AS "httpLastModified",
       CASE p.type WHEN 'url' THEN r.content_length END AS "httpContentLength",
       CASE WHEN p.type = 'file' THEN NULL
            WHEN s.http_status = 304 AND s.standing > 0 THEN 200 ELSE s.http_status END
           AS "httpStatusCode",
       CASE p.type WHEN 'url' THEN (SELECT g.chain FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpRedirectChain",
       CASE p.type WHEN 'url' THEN
            NOT (s.status IN (4, 5) AND coalesce(r.error_message, '') GLOB 'disallowed by *') END
           AS "httpRobotsAllowed",
       CASE WHEN p.type = 'file' THEN NULL
            WHEN r.redirect_target IS NULL THEN r.canonical_url
            ELSE (SELECT g.target FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpCanonicalUrl",
       CASE p.type WHEN 'file' THEN r.etag END AS "fileEtag",
       CASE p.type WHEN 'file' THEN r.modified END AS "fileLastModified",
       CASE p.type WHEN 'file' THEN r.content_length END AS "fileLength",
       CASE p.type WHEN 'file' THEN r.content_type END AS "fileContentType",
       'sha256:' || nullif(lower(hex(coalesce(c.content_hash, r.content_hash))), '') AS "contentHash",
       'sha256:' || nullif(lower(hex(coalesce(c.text_hash, r.text_hash))), '') AS "textHash",
       c.language AS "language",
       nullif(lower(trim(substr(r.content_type, 1, instr(r.content_type || ';', ';') - 1))), '') AS "mimeType",
       CASE WHEN x.name IS NULL THEN 'page_' ELSE u.name || ':' END
           || nullif(lower(hex(CASE WHEN c.no IS NULL THEN NULL
                        WHEN r.entry > 0 AND (x.name IS NULL OR r.sunk IS NOT NULL) THEN r.id
                        WHEN o.entry > 0 AND (x.name IS NULL OR o.sunk IS NOT NULL) THEN o.id END)), '')
           AS "lastIndexedDocId",
       CASE WHEN c.no IS NULL OR r.duplicate_of IS NOT NULL THEN NULL ELSE c.image_count END
           AS "imageCount",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS "firstSeen",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS "lastChecked",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS "lastChanged",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_indexed, 'unixepoch') AS "lastIndexed",
       s.failures AS "crawlAttempts",
       r.error_message AS "errorMessage",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.next_visit, 'unixepoch') AS "nextCrawlAt",
       coalesce(s.interval, s.next_visit - s.last_checked) AS "crawlIntervalSeconds"
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN source u ON u.no = r.source
  JOIN row_key k ON k.no = r.no
  JOIN item_place p ON p.no = r.no
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
  LEFT JOIN choice x ON x.name = 'index identity'
--;
CREATE VIEW "IngestItems" AS
SELECT "PartitionKey", "RowKey", "ETag", "id", "type", "normalizedSource", "displaySource",
       "sourceHost", "parentPageId", "status", "reindexRequested", "reindexGeneration", "httpEtag",
       "httpLastModified", "httpContentLength", "httpStatusCode", "httpRedirectChain",
       "httpRobotsAllowed", "httpCanonicalUrl", "fileEtag", "fileLastModified", "fileLength",
       "fileContentType", "contentHash", "textHash", "language", "mimeType", "lastIndexedDocId",
       "imageCount", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "crawlAttempts",
       "errorMessage", "nextCrawlAt", "crawlIntervalSeconds"
  FROM ingest_entity
--;
CREATE VIEW url_frontier AS
SELECT nullif(lower(hex(r.id)), '') AS url_hash,
       r.url AS url,
       h.name AS domain,
       coalesce(q.priority, 5) AS priority,
       s.depth AS depth,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS discovered_at,
       nullif(lower(hex(p.id)), '') AS discovered_from,
       CASE s.status WHEN 0 THEN 'pending' WHEN 1 THEN 'completed' WHEN 2 THEN 'completed'
                     WHEN 4 THEN 'blocked' ELSE 'failed' END AS status,
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS last_crawl_attempt,
       s.attempts AS crawl_count,
       s.http_status AS last_status_code,
       strftime('%Y-%m-%dT%H:%M:%SZ', coalesce(s.next_visit, r.first_seen), 'unixepoch')
           AS next_crawl_after
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN record p ON p.no = r.discovered_from
  LEFT JOIN pin q ON q.no = r.no
UNION ALL
SELECT lower(hex(w.id)), w.url, w.host, w.priority, 0,
       strftime('%Y-%m-%dT%H:%M:%SZ', w.at, 'unixepoch'), NULL, 'pending', NULL, 0, NULL,
       strftime('%Y-%m-%dT%H:%M:%SZ', w.at, 'unixepoch')
  FROM pending_pin w
 WHERE NOT EXISTS (SELECT 1 FROM record r JOIN source o ON o.no = r.source
                    WHERE o.name = w.source AND r.id = w.id)
--;
CREATE VIEW crawled_documents AS
SELECT nullif(lower(hex(r.id)), '') AS url_hash,
       r.url AS url,
       h.name AS domain,
       CASE WHEN r.kind <> 0 AND s.effective_status = 406 AND s.http_status IN (200, 304) THEN 200
            ELSE s.effective_status END AS http_status,
       r.content_type AS content_type,
       r.content_length AS content_length,
       r.content_encoding AS content_encoding,
       r.etag AS etag,
       r.modified AS last_modified,
       nullif(lower(hex(CASE WHEN s.effective_status BETWEEN 300 AND 399 THEN NULL ELSE r.body_hash END)), '')
           AS content_hash,
       t.url || '/' || p.path AS storage_path,
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS crawled_at,
       c.title AS title,
       coalesce(l.count, 0) AS outlinks_count,
       r.duplicate_of IS NOT NULL AS is_duplicate,
       nullif(lower(hex(o.id)), '') AS duplicate_of
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  LEFT JOIN snapshot p ON p.no = r.snapshot
  LEFT JOIN store t ON t.no = p.store
  LEFT JOIN record o ON o.no = r.duplicate_of
 WHERE s.standing > 0 OR s.effective_status IN (301, 302, 303, 307, 308)
--;
CREATE VIEW domain_stats AS
SELECT name AS domain,
       pages_crawled,
       pages_failed,
       bytes_downloaded,
       strftime('%Y-%m-%dT%H:%M:%SZ', first_crawled_at, 'unixepoch') AS first_crawled_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', last_crawled_at, 'unixepoch') AS last_crawled_at,
       CASE WHEN pages_crawled > 0 THEN response_ms / pages_crawled END AS avg_response_time_ms,
       strftime('%Y-%m-%dT%H:%M:%SZ', robots_fetched_at, 'unixepoch') AS robots_txt_fetched_at,
       nullif(lower(hex(robots_hash)), '') AS robots_txt_hash,
       crawl_delay_ms,
       CASE WHEN pages_crawled + pages_failed > 0
            THEN 1.0 * pages_failed / (pages_crawled + pages_failed) ELSE 0.0 END AS error_rate,
       is_blocked,
       block_reason
  FROM host
--;
-- The table crawl_jobs of the seed (R2-58). Counts are those of the job's last run that was opened.
CREATE VIEW crawl_jobs AS
SELECT j.id AS job_id,
       j.name AS name,
       json_extract(j.definition, '$.config') AS config,
       json_extract(j.definition, '$.seed_urls') AS seed_urls,
       json_extract(j.definition, '$.filters') AS filters,
       json_extract(j.definition, '$.schedule.type') AS schedule_type,
       json_extract(j.definition, '$.schedule.cron') AS cron_expression,
       j.status AS status,
       coalesce(r.visits, 0) AS pages_crawled,
       coalesce(r.queued, 0) AS pages_queued,
       coalesce(json_extract(r.words, '$.failed'), 0)
           + coalesce(json_extract(r.words, '$.lost'), 0)
           + coalesce(json_extract(r.words, '$.gone'), 0) AS pages_failed,
       coalesce(r.bytes_downloaded, 0) AS bytes_downloaded,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.created_at, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.started_at, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', j.completed_at, 'unixepoch') AS completed_at
  FROM job j
  LEFT JOIN run r ON r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = j.no)
 WHERE j.deleted_at IS NULL
--;
CREATE VIEW versions AS
SELECT no AS id, name, strftime('%Y-%m-%dT%H:%M:%SZ', created_at, 'unixepoch') AS created_at
  FROM source
--;
CREATE VIEW pages AS
SELECT r.no AS id,
       r.source AS version_id,
       r.url AS url,
       c.title AS title,
       r.etag AS etag,
       r.last_modified AS last_modified,
       nullif(lower(trim(substr(r.content_type, 1, instr(r.content_type || ';', ';') - 1))), '') AS content_type,
       s.depth AS depth,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_indexed, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS updated_at
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
--;
CREATE VIEW content_text (content, txt) AS
SELECT c.no, coalesce((SELECT group_concat(text, char(10)) FROM
                          (SELECT substr(k.text, k.repeated + 1) AS text FROM chunk k
                            WHERE k.content = c.no ORDER BY k.position)), c.txt)
  FROM content c
--;
CREATE VIEW content_word (content, word) AS
SELECT t.content, w.value
  FROM content_text t,
       json_each('[' || replace(json_quote(replace(replace(t.txt, char(10), ' '), char(9), ' ')),
                                ' ', '","') || ']') w
 WHERE w.value <> ''
--;
-- The vector is that of the embedder that searches use. Of a page whose chunks an index elsewhere
-- has, the row is its text.
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_object('level', k.level, 'path', k.headings,
                   'types', json('["' || replace(k.types, ',', '","') || '"]'),
                   'repeated', k.repeated, 'hash', lower(hex(k.hash))) AS metadata,
       k.position AS sort_order,
       (SELECT v.vector FROM vector v
         WHERE v.hash = k.hash
           AND v.embedder = (SELECT e.no FROM embedder e WHERE e.whole_at IS NOT NULL
                              ORDER BY e.whole_at DESC, e.no DESC LIMIT 1)) AS embedding,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
UNION ALL
SELECT r.no << 20, r.no, c.txt,
       json_object('level', 1, 'path', '', 'types', json_array('text'), 'repeated', 0, 'hash', NULL), 0,
       NULL, strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch')
  FROM content c JOIN record r ON r.content = c.no AND r.entry > 0
 WHERE c.txt IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chunk k WHERE k.content = c.no)
--;
-- The word tables: url_id is the key of both.
CREATE VIEW urlword AS
SELECT r.url AS url,
       h.name AS site,
       CASE WHEN s.http_status IN (200, 304) OR s.effective_status IS NULL OR s.http_status IS NULL
                 OR s.http_status = s.effective_status
            THEN coalesce(s.effective_status, s.http_status, 0)
            ELSE (s.http_status << 16) | s.effective_status END AS status,
       s.last_answered AS last_index_time,
       s.next_visit AS next_index_time,
       nullif(lower(hex(coalesce(c.content_hash, r.content_hash))), '') AS crc,
       r.last_modified AS last_modified,
       r.etag AS etag,
       s.depth AS hops,
       r.redirect_target AS redir,
       r.duplicate_of AS origin,
       r.no AS url_id
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN content c ON c.no = r.content
--;
-- Pages with stored links only, if they link into the source. Its url_id is that of urlword.
CREATE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       nullif(lower(trim(substr(r.content_type, 1, instr(r.content_type || ';', ';') - 1))), '') AS content_type,
       c.charset AS charset,
       c.title AS title,
       (SELECT t.txt FROM content_text t WHERE t.content = c.no) AS txt,
       r.content_length AS docsize,
       nullif(c.keywords, '') AS keywords,
       c.description AS description,
       c.language AS lang,
       (SELECT group_concat(word, ' ') FROM
           (SELECT DISTINCT w.word AS word FROM content_word w WHERE w.content = c.no ORDER BY 1)) AS words,
       coalesce(l.count, 0) AS hrefs,
       r.no AS url_id
  FROM record r
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  JOIN state s ON s.no = r.no
 WHERE (s.standing = 2 AND r.entry > 0)
    OR (s.standing = 1 AND r.kind = 0 AND length(l.targets) > 0)
