-- Fields of the seeds' shapes as the specifications count, normalize and name them (ADR 42).

-- Failed visits, never reset (crawlAttempts); attempts counts every visit.
ALTER TABLE state ADD COLUMN failures INTEGER NOT NULL DEFAULT 0
--;
UPDATE state SET failures = error_count WHERE error_count > 0
--;
-- Time of first indexing (pages.created_at); for older rows: of discovery.
ALTER TABLE record ADD COLUMN first_indexed INTEGER
--;
UPDATE record SET first_indexed = first_seen WHERE last_indexed IS NOT NULL
--;
DROP VIEW received
--;
-- Last-Modified as ISO 8601, from the three forms of RFC 9110 5.6.7; NULL if it has none of them.
-- A two-digit year is the latest such year that has begun, because no time is in the future.
CREATE VIEW received (no, last_modified) AS
SELECT no, CASE
  WHEN last_modified GLOB '[A-Z][a-z][a-z], [0-3][0-9] [A-Z][a-z][a-z] [0-9][0-9][0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT'
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) % 3 = 1
       THEN substr(last_modified, 13, 4)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) + 2) / 3)
            || '-' || substr(last_modified, 6, 2) || 'T' || substr(last_modified, 18, 8) || 'Z'
  WHEN substr(last_modified, -24) GLOB ', [0-3][0-9]-[A-Z][a-z][a-z]-[0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT'
            AND substr(last_modified, 1, length(last_modified) - 24) IN
                ('Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday')
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, -19, 3)) % 3 = 1
       THEN (strftime('%Y', 'now') - (strftime('%Y', 'now') - substr(last_modified, -15, 2) + 100) % 100)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, -19, 3)) + 2) / 3)
            || '-' || substr(last_modified, -22, 2) || 'T' || substr(last_modified, -12, 8) || 'Z'
  WHEN last_modified GLOB '[A-Z][a-z][a-z] [A-Z][a-z][a-z] [ 0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] [0-9][0-9][0-9][0-9]'
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 5, 3)) % 3 = 1
       THEN substr(last_modified, 21, 4)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 5, 3)) + 2) / 3)
            || '-' || replace(substr(last_modified, 9, 2), ' ', '0') || 'T' || substr(last_modified, 12, 8) || 'Z'
  END
  FROM record
--;
DROP VIEW redirect_chain
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
-- answer. The document in the index is the page's own, or its original's.
CREATE VIEW ingest_entity AS
SELECT r.no AS no,
       CASE WHEN (SELECT value FROM choice WHERE name = 'partition') = 'scheme'
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
       CASE WHEN s.http_status = 304 AND s.standing > 0 THEN 200 ELSE s.http_status END
           AS "httpStatusCode",
       (SELECT g.chain FROM redirect_chain g WHERE g.no = r.no) AS "httpRedirectChain",
       NOT (s.status IN (4, 5) AND coalesce(r.error_message, '') GLOB 'disallowed by *')
           AS "httpRobotsAllowed",
       CASE WHEN r.redirect_target IS NULL THEN r.canonical_url
            ELSE (SELECT g.target FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpCanonicalUrl",
       NULL AS "fileEtag",
       NULL AS "fileLastModified",
       NULL AS "fileLength",
       NULL AS "fileContentType",
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
  JOIN received m ON m.no = r.no
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
  LEFT JOIN choice x ON x.name = 'index identity'
--;
DROP VIEW "IngestItems"
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
DROP VIEW pages
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
DROP VIEW urlwords
--;
-- Pages with stored links only, if they link into the source.
CREATE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       nullif(lower(trim(substr(r.content_type, 1, instr(r.content_type || ';', ';') - 1))), '') AS content_type,
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
 WHERE (s.standing = 2 AND r.entry > 0)
    OR (s.standing = 1 AND r.kind = 0 AND length(l.targets) > 0)
