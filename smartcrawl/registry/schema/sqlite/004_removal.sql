-- Ageing of pages, candidates for removal, evidence of removals (ADR 131).

-- Time of the first of the losses in lost_count.
ALTER TABLE state ADD COLUMN lost_since INTEGER
--;
-- Time of the last answer.
ALTER TABLE state ADD COLUMN last_answered INTEGER
--;
UPDATE state SET last_answered = last_checked WHERE http_status < 1100
--;
-- Time of the first of the losses in gone_count.
ALTER TABLE state ADD COLUMN gone_since INTEGER
--;
-- Index entry: 0 none, 1 its own, 2 kept from before it was lost.
ALTER TABLE record ADD COLUMN entry INTEGER NOT NULL DEFAULT 0
--;
UPDATE record SET entry = 1 WHERE content IS NOT NULL AND duplicate_of IS NULL
--;
-- record.no of canonical_url: another page, in scope.
ALTER TABLE record ADD COLUMN canonical_no INTEGER
--;
CREATE INDEX record_clone ON record (duplicate_of) WHERE duplicate_of IS NOT NULL
--;
CREATE INDEX record_canonical ON record (canonical_no) WHERE canonical_no IS NOT NULL
--;
-- Whether sources.toml declared it at its last crawl.
ALTER TABLE source ADD COLUMN declared INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE seed ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE run ADD COLUMN removed INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE run ADD COLUMN withheld INTEGER NOT NULL DEFAULT 0
--;
-- JSON: ignored answers and links, and why.
ALTER TABLE run ADD COLUMN notes TEXT NOT NULL DEFAULT '[]'
--;
UPDATE run SET state = 4 WHERE state = 3
--;
-- Pages registered by hand: seeds of their source until they are forgotten.
CREATE TABLE pin (
    no     INTEGER PRIMARY KEY,                          -- record.no
    source INTEGER NOT NULL,
    at     INTEGER NOT NULL
)
--;
-- Changes of status and standing; a 304 adds no event.
CREATE TABLE event (
    no          INTEGER PRIMARY KEY,
    record      INTEGER NOT NULL,                        -- record.no
    run         INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    status      INTEGER NOT NULL,                        -- rules.model.Status after the event
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
-- Candidates for removal, one row a page. A withheld one stays until it is approved or refuted.
CREATE TABLE candidate (
    no       INTEGER PRIMARY KEY,                        -- record.no
    source   INTEGER NOT NULL,
    run      INTEGER NOT NULL,                           -- run.no of the first proposal
    renewed  INTEGER NOT NULL,                           -- run.no of the last proposal
    rule     INTEGER NOT NULL,                           -- rules.model.Rule
    detail   TEXT NOT NULL,                              -- JSON: the evidence
    probe    INTEGER,                                    -- (extended) status of the verification
    withheld INTEGER NOT NULL DEFAULT 0
)
--;
-- Removed pages, with the evidence and the data for an undo.
CREATE TABLE evidence (
    no       INTEGER PRIMARY KEY,
    record   INTEGER NOT NULL,                           -- record.no
    source   INTEGER NOT NULL,
    run      INTEGER NOT NULL,                           -- run.no of the sweep, or the last run before a command
    rule     INTEGER NOT NULL,                           -- rules.model.Rule
    at       INTEGER NOT NULL,
    detail   TEXT NOT NULL,                              -- JSON: the evidence
    content  INTEGER,                                    -- content.no while an undo is possible
    restore  TEXT,                                       -- JSON: former columns; NULL: expired
    links    BLOB,                                       -- former links.raw
    undone   INTEGER                                     -- time of the undo
)
--;
CREATE INDEX evidence_record ON evidence (record)
--;
CREATE INDEX evidence_run ON evidence (run)
--;
CREATE INDEX evidence_content ON evidence (content) WHERE content IS NOT NULL
--;
-- The last readable robots.txt of each origin, used while it cannot be fetched.
CREATE TABLE robots (
    origin        TEXT PRIMARY KEY,                      -- scheme://host[:port]
    fetched_at    INTEGER NOT NULL,                      -- last 200, 304 or 4xx
    status        INTEGER NOT NULL,                      -- 200, or a 4xx that means "no rules"
    etag          TEXT,
    last_modified TEXT,
    body          BLOB NOT NULL                          -- at most 500 KiB
) WITHOUT ROWID
--;
-- The addresses of a redirect chain, itself first, at most six.
CREATE VIEW redirect_chain (no, chain) AS
SELECT r.no, (
    WITH RECURSIVE hop (place, url, next) AS (
        SELECT 0, r.url, r.redirect_no
        UNION ALL SELECT 1, r.redirect_target, r.redirect_no
        UNION ALL SELECT hop.place + 1, t.redirect_target, t.redirect_no
                    FROM hop JOIN record t ON t.no = hop.next
                   WHERE hop.place BETWEEN 1 AND 5 AND t.redirect_target IS NOT NULL
    )
    SELECT json_group_array(url) FROM (SELECT url FROM hop WHERE place <= 6 ORDER BY place)
) FROM record r WHERE r.redirect_target IS NOT NULL
--;
DROP VIEW "IngestItems"
--;
CREATE VIEW "IngestItems" AS
SELECT h.name AS "PartitionKey",
       k.row_key AS "RowKey",
       CAST(s.number AS TEXT) AS "ETag",
       'url_' || k.row_key AS "id",
       'url' AS "type",
       coalesce(r.identity, r.url) AS "normalizedSource",
       CASE WHEN h.display IS NULL THEN r.url
            ELSE replace(r.url, '://' || h.name, '://' || h.display) END AS "displaySource",
       h.name AS "sourceHost",
       NULL AS "parentPageId",
       CASE s.status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Crawled' WHEN 2 THEN 'Indexed'
                     WHEN 3 THEN 'Error' WHEN 4 THEN 'OutOfScope' ELSE 'Gone' END AS "status",
       0 AS "reindexRequested",
       0 AS "reindexGeneration",
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
       NULL AS "imageCount",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS "firstSeen",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS "lastChecked",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS "lastChanged",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_indexed, 'unixepoch') AS "lastIndexed",
       s.attempts AS "crawlAttempts",
       r.error_message AS "errorMessage",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.next_visit, 'unixepoch') AS "nextCrawlAt",
       s.next_visit - s.last_checked AS "crawlIntervalSeconds"
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN row_key k ON k.no = r.no
  JOIN received m ON m.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
--;
DROP VIEW documents
--;
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_object('level', length(k.headings) - length(replace(k.headings, ' > ', '  ')) + 1,
                   'path', k.headings, 'types', json_array('text')) AS metadata,
       k.position AS sort_order,
       NULL AS embedding,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
--;
DROP VIEW urlwords
--;
CREATE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       r.content_type AS content_type,
       c.charset AS charset,
       c.title AS title,
       (SELECT t.txt FROM content_text t WHERE t.content = c.no) AS txt,
       r.content_length AS docsize,
       NULL AS keywords,
       c.description AS description,
       c.language AS lang,
       NULL AS words,
       coalesce(l.count, 0) AS hrefs
  FROM record r
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  JOIN state s ON s.no = r.no
 WHERE (s.standing = 2 AND r.entry > 0) OR (s.standing = 1 AND l.count > 0)
--;
DROP VIEW urlword
--;
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
       r.duplicate_of AS origin
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN content c ON c.no = r.content
