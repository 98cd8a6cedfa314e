-- Items that are files: their type, id and partition key, and the fields of files (R0-09, R0-31).

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
DROP VIEW received
--;
-- Last-Modified as ISO 8601, from the three forms of RFC 9110 5.6.7; NULL if it has none of them.
-- A two-digit year is the latest such year that has begun, because no time is in the future. That
-- of a file is in ISO 8601 already.
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
  WHEN NOT (url GLOB 'http://*' OR url GLOB 'https://*')
            AND last_modified GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*'
       THEN last_modified
  END
  FROM record
--;
DROP VIEW ingest_entity
--;
-- The fields of "IngestItems", by record number. After a 304 the status is that of the confirmed
-- answer. The document in the index is the page's own, or its original's.
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
       CASE p.type WHEN 'url' THEN m.last_modified END AS "httpLastModified",
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
       CASE p.type WHEN 'file' THEN m.last_modified END AS "fileLastModified",
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
  JOIN received m ON m.no = r.no
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
  LEFT JOIN choice x ON x.name = 'index identity'
