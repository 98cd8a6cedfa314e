-- The seeds' own shapes: read-only views over the registry, with the seeds' column names.
-- (outlinks is a virtual table of this program's connections: registry/database/views.py.)

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
CREATE VIEW received (no, last_modified) AS
-- Last-Modified as ISO 8601; NULL if it is no IMF-fixdate.
SELECT no, CASE WHEN last_modified GLOB '[A-Z][a-z][a-z], [0-3][0-9] [A-Z][a-z][a-z] [0-9][0-9][0-9][0-9]'
                                         || ' [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT'
             AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) % 3 = 1 THEN
    substr(last_modified, 13, 4) || '-'
    || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) + 2) / 3)
    || '-' || substr(last_modified, 6, 2) || 'T' || substr(last_modified, 18, 8) || 'Z' END
  FROM record
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
       CASE WHEN r.redirect_target IS NULL THEN NULL ELSE json_array(r.url, r.redirect_target) END
           AS "httpRedirectChain",
       s.status <> 4 AS "httpRobotsAllowed",
       r.canonical_url AS "httpCanonicalUrl",
       NULL AS "fileEtag",
       NULL AS "fileLastModified",
       NULL AS "fileLength",
       NULL AS "fileContentType",
       'sha256:' || nullif(lower(hex(coalesce(c.content_hash, r.content_hash))), '') AS "contentHash",
       'sha256:' || nullif(lower(hex(coalesce(c.text_hash, r.text_hash))), '') AS "textHash",
       c.language AS "language",
       r.content_type AS "mimeType",
       CASE WHEN c.no IS NULL THEN NULL ELSE 'page_' || nullif(lower(hex(coalesce(o.id, r.id))), '') END
           AS "lastIndexedDocId",
       NULL AS "imageCount",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS "firstSeen",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_checked, 'unixepoch') AS "lastChecked",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS "lastChanged",
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_indexed, 'unixepoch') AS "lastIndexed",
       s.attempts AS "crawlAttempts",
       r.error_message AS "errorMessage",
       strftime('%Y-%m-%dT%H:%M:%SZ', s.next_visit, 'unixepoch') AS "nextCrawlAt",
       NULL AS "crawlIntervalSeconds"
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN row_key k ON k.no = r.no
  JOIN received m ON m.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
--;
CREATE VIEW url_frontier AS
SELECT nullif(lower(hex(r.id)), '') AS url_hash,
       r.url AS url,
       h.name AS domain,
       5 AS priority,
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
       NULL AS storage_path,
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
       r.content_type AS content_type,
       s.depth AS depth,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.first_seen, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS updated_at
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
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
  FROM chunk k JOIN record r ON r.content = k.content AND r.duplicate_of IS NULL
--;
CREATE VIEW urlword AS
SELECT r.url AS url,
       h.name AS site,
       CASE WHEN s.http_status IN (200, 304) OR s.effective_status IS NULL OR s.http_status IS NULL
                 OR s.http_status = s.effective_status
            THEN coalesce(s.effective_status, s.http_status, 0)
            ELSE (s.http_status << 16) | s.effective_status END AS status,
       s.last_checked AS last_index_time,
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
--;
CREATE VIEW content_text (content, txt) AS
SELECT c.no, (SELECT group_concat(text, char(10)) FROM
                 (SELECT k.text FROM chunk k WHERE k.content = c.no ORDER BY k.position))
  FROM content c
--;
CREATE VIEW content_word (content, word) AS
SELECT t.content, w.value
  FROM content_text t,
       json_each('[' || replace(json_quote(replace(replace(t.txt, char(10), ' '), char(9), ' ')),
                                ' ', '","') || ']') w
 WHERE w.value <> ''
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
 WHERE (s.standing = 2 AND r.duplicate_of IS NULL) OR (s.standing = 1 AND l.count > 0)
