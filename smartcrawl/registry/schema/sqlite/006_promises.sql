-- Orders, changes of pages, snapshots of bodies, trust in hosts.

-- Orders for single addresses (R0-29), their lock (R0-73), and the number of writes of either.
CREATE TABLE item (
    no           INTEGER PRIMARY KEY,                    -- record.no
    requested    INTEGER NOT NULL DEFAULT 0,             -- reindexRequested
    generation   INTEGER NOT NULL DEFAULT 0,             -- reindexGeneration
    processed    INTEGER NOT NULL DEFAULT 0,             -- the last generation that a visit fulfilled
    locked_until INTEGER,                                -- Unix seconds
    revision     INTEGER NOT NULL DEFAULT 0
)
--;
-- Times of detected changes, by which a schedule is measured.
CREATE TABLE change (
    no     INTEGER PRIMARY KEY,
    record INTEGER NOT NULL,                             -- record.no
    run    INTEGER NOT NULL,
    at     INTEGER NOT NULL                              -- Unix seconds
)
--;
CREATE INDEX change_record ON change (record)
--;
-- Stores of bodies: each value that SNAPSHOT_STORE has had.
CREATE TABLE store (
    no  INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE
)
--;
-- Raw bodies, one copy each (M-48).
CREATE TABLE snapshot (
    no           INTEGER PRIMARY KEY,
    store        INTEGER NOT NULL,                       -- store.no
    body_hash    BLOB NOT NULL,
    path         TEXT NOT NULL,                          -- yyyy/mm/dd/url_hash.html.gz, below the store
    content_type TEXT,                                   -- header as received
    at           INTEGER NOT NULL,                       -- when it was stored, Unix seconds
    released     INTEGER,                                -- time of its release by the last page; NULL: in use
    UNIQUE (store, body_hash),
    UNIQUE (store, path)
)
--;
CREATE INDEX snapshot_released ON snapshot (released) WHERE released IS NOT NULL
--;
-- snapshot.no of the stored body.
ALTER TABLE record ADD COLUMN snapshot INTEGER
--;
CREATE INDEX record_snapshot ON record (snapshot) WHERE snapshot IS NOT NULL
--;
-- Time of the last downloaded body, without later confirmations by validators.
ALTER TABLE record ADD COLUMN verified_at INTEGER
--;
-- 1: names addresses with signatures, 2: answered under its own signature (model.pages.Page.signs).
ALTER TABLE record ADD COLUMN signs INTEGER NOT NULL DEFAULT 0
--;
-- rules.model.Mode of the page in the index.
ALTER TABLE record ADD COLUMN mode INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE content ADD COLUMN image_count INTEGER NOT NULL DEFAULT 0
--;
-- Whether the run requested only due pages, and its re-extracted pages.
ALTER TABLE run ADD COLUMN due INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE run ADD COLUMN reextracted INTEGER NOT NULL DEFAULT 0
--;
-- Scheduled seconds between the last visit and the next, before spreading.
ALTER TABLE state ADD COLUMN interval INTEGER
--;
-- EXTRACTION_VERSION of a configuration; NULL: a scope, or stored before schema 6.
ALTER TABLE fingerprint ADD COLUMN extraction INTEGER
--;
-- Choices of the operator that views depend on: partition (REGISTRY_PARTITION_STRATEGY).
CREATE TABLE choice (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID
--;
DROP VIEW "IngestItems"
--;
CREATE VIEW "IngestItems" AS
SELECT CASE WHEN (SELECT value FROM choice WHERE name = 'partition') = 'scheme'
            THEN substr(r.url, 1, instr(r.url, ':') - 1) ELSE h.name END AS "PartitionKey",
       k.row_key AS "RowKey",
       s.number || '.' || coalesce(i.revision, 0) AS "ETag",
       'url_' || k.row_key AS "id",
       'url' AS "type",
       coalesce(r.identity, r.url) AS "normalizedSource",
       CASE WHEN h.display IS NULL THEN r.url
            ELSE replace(r.url, '://' || h.name, '://' || h.display) END AS "displaySource",
       h.name AS "sourceHost",
       NULL AS "parentPageId",
       CASE s.status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Crawled' WHEN 2 THEN 'Indexed'
                     WHEN 3 THEN 'Error' WHEN 4 THEN 'OutOfScope' ELSE 'Gone' END AS "status",
       coalesce(i.requested, 0) AS "reindexRequested",
       coalesce(i.generation, 0) AS "reindexGeneration",
       r.etag AS "httpEtag",
       m.last_modified AS "httpLastModified",
       r.content_length AS "httpContentLength",
       s.http_status AS "httpStatusCode",
       (SELECT g.chain FROM redirect_chain g WHERE g.no = r.no) AS "httpRedirectChain",
       NOT (s.status IN (4, 5) AND coalesce(r.error_message, '') GLOB 'disallowed by *')
           AS "httpRobotsAllowed",
       r.canonical_url AS "httpCanonicalUrl",
       NULL AS "fileEtag",
       NULL AS "fileLastModified",
       NULL AS "fileLength",
       NULL AS "fileContentType",
       'sha256:' || nullif(lower(hex(coalesce(c.content_hash, r.content_hash))), '') AS "contentHash",
       'sha256:' || nullif(lower(hex(coalesce(c.text_hash, r.text_hash))), '') AS "textHash",
       c.language AS "language",
       r.content_type AS "mimeType",
       CASE WHEN c.no IS NULL OR (r.entry = 0 AND o.id IS NULL) THEN NULL
            ELSE 'page_' || nullif(lower(hex(coalesce(o.id, r.id))), '') END
           AS "lastIndexedDocId",
       CASE WHEN c.no IS NULL OR r.duplicate_of IS NOT NULL THEN NULL ELSE c.image_count END
           AS "imageCount",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS "firstSeen",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS "lastChecked",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS "lastChanged",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_indexed, 'unixepoch') AS "lastIndexed",
       s.attempts AS "crawlAttempts",
       r.error_message AS "errorMessage",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.next_visit, 'unixepoch') AS "nextCrawlAt",
       coalesce(s.interval, s.next_visit - s.last_checked) AS "crawlIntervalSeconds"
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN row_key k ON k.no = r.no
  JOIN received m ON m.no = r.no
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
--;
DROP VIEW crawled_documents
--;
CREATE VIEW crawled_documents AS
SELECT nullif(lower(hex(r.id)), '') AS url_hash,
       r.url AS url,
       h.name AS domain,
       s.effective_status AS http_status,
       r.content_type AS content_type,
       r.content_length AS content_length,
       r.content_encoding AS content_encoding,
       r.etag AS etag,
       m.last_modified AS last_modified,
       nullif(lower(hex(coalesce(c.content_hash, r.content_hash))), '') AS content_hash,
       t.url || '/' || p.path AS storage_path,
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS crawled_at,
       c.title AS title,
       coalesce(l.count, 0) AS outlinks_count,
       r.duplicate_of IS NOT NULL AS is_duplicate,
       nullif(lower(hex(o.id)), '') AS duplicate_of
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN received m ON m.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  LEFT JOIN snapshot p ON p.no = r.snapshot
  LEFT JOIN store t ON t.no = p.store
  LEFT JOIN record o ON o.no = r.duplicate_of
 WHERE s.standing > 0 OR s.effective_status IN (301, 302, 303, 307, 308)
--;
-- Trust in the validators of a host, from its answers (rules.trust). Counts are pages.
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
    distrusted_at INTEGER                                -- start of the distrust; NULL: fully trusted
)
--;
-- Answer of a host for an address that cannot exist (rules.soft404); NULL: an error status.
CREATE TABLE not_found (
    host    INTEGER PRIMARY KEY REFERENCES host (no),
    at      INTEGER NOT NULL,                            -- Unix seconds
    profile TEXT
)
