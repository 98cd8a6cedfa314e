-- Fields of the seeds' shapes as the specifications count, normalize and name them (ADR 42).

-- Failed visits, never reset (crawlAttempts); attempts counts every visit.
ALTER TABLE state ADD COLUMN failures INTEGER NOT NULL DEFAULT 0
--;
UPDATE state SET failures = error_count WHERE error_count > 0
--;
-- Time of first indexing (pages.created_at); for older rows: of discovery.
ALTER TABLE record ADD COLUMN first_indexed BIGINT
--;
UPDATE record SET first_indexed = first_seen WHERE last_indexed IS NOT NULL
--;
-- Last-Modified as ISO 8601, from the three forms of RFC 9110 5.6.7; NULL if it has none of them.
-- A two-digit year is the latest such year that has begun, because no time is in the future.
CREATE OR REPLACE FUNCTION received_at (last_modified text) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (
    SELECT year || '-' || lpad(((strpos('JanFebMarAprMayJunJulAugSepOctNovDec', month) + 2) / 3)::text, 2, '0')
           || '-' || replace(day, ' ', '0') || 'T' || time || 'Z'
      FROM (
        SELECT coalesce(f[3], a[4], (this - (this - r[3]::integer + 100) % 100)::text) AS year,
               coalesce(f[2], r[2], a[1]) AS month, coalesce(f[1], r[1], a[2]) AS day,
               coalesce(f[4], r[4], a[3]) AS time
          FROM (SELECT
            extract(year FROM now() AT TIME ZONE 'UTC')::integer AS this,
            regexp_match(last_modified, '^[A-Z][a-z]{2}, ([0-3][0-9]) ([A-Z][a-z]{2}) ([0-9]{4})'
                ' ([0-2][0-9]:[0-5][0-9]:[0-6][0-9]) GMT$') AS f,
            regexp_match(last_modified, '^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,'
                ' ([0-3][0-9])-([A-Z][a-z]{2})-([0-9]{2}) ([0-2][0-9]:[0-5][0-9]:[0-6][0-9]) GMT$') AS r,
            regexp_match(last_modified, '^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ 0-3][0-9])'
                ' ([0-2][0-9]:[0-5][0-9]:[0-6][0-9]) ([0-9]{4})$') AS a
          ) AS matched
      ) AS parts
     WHERE strpos('JanFebMarAprMayJunJulAugSepOctNovDec', month) % 3 = 1)
--;
-- The addresses of a redirect chain, itself first, at most six, and its end; a circle and a chain
-- that is too long have no end.
CREATE OR REPLACE VIEW redirect_chain (no, chain, target) AS
SELECT no, chain, CASE WHEN json_array_length(chain::json) < 7 THEN chain::json ->> -1 END
  FROM (
SELECT r.no AS no, (
    WITH RECURSIVE hop (place, url, next) AS (
        SELECT 0, r.url, r.redirect_no
        UNION ALL
        SELECT hop.place + 1, CASE hop.place WHEN 0 THEN r.redirect_target ELSE t.redirect_target END,
               CASE hop.place WHEN 0 THEN r.redirect_no ELSE t.redirect_no END
          FROM hop LEFT JOIN record t ON t.no = hop.next
         WHERE hop.place = 0 OR (hop.place BETWEEN 1 AND 5 AND t.redirect_target IS NOT NULL)
    )
    SELECT json_agg(url ORDER BY place)::text FROM hop WHERE place <= 6
) AS chain FROM record r WHERE r.redirect_target IS NOT NULL) AS led
--;
-- The fields of "IngestItems", by record number. After a 304 the status is that of the confirmed
-- answer. The document in the index is the page's own, or its original's.
CREATE VIEW ingest_entity AS
SELECT r.no AS no,
       CASE WHEN (SELECT value FROM choice WHERE name = 'partition') = 'scheme'
            THEN split_part(r.url, ':', 1) ELSE h.name END AS "PartitionKey",
       row_key(r.id) AS "RowKey",
       s.number || '.' || coalesce(i.revision, 0) AS "ETag",
       'url_' || row_key(r.id) AS "id",
       'url' AS "type",
       coalesce(r.identity, r.url) AS "normalizedSource",
       CASE WHEN h.display IS NULL THEN r.url
            ELSE replace(r.url, '://' || h.name, '://' || h.display) END AS "displaySource",
       h.name AS "sourceHost",
       NULL::text AS "parentPageId",
       CASE s.status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Crawled' WHEN 2 THEN 'Indexed'
                     WHEN 3 THEN 'Error' WHEN 4 THEN 'OutOfScope' ELSE 'Gone' END AS "status",
       coalesce(i.requested, FALSE) AS "reindexRequested",
       coalesce(i.generation, 0) AS "reindexGeneration",
       r.etag AS "httpEtag",
       received_at(r.last_modified) AS "httpLastModified",
       r.content_length AS "httpContentLength",
       CASE WHEN s.http_status = 304 AND s.standing > 0 THEN 200 ELSE s.http_status END
           AS "httpStatusCode",
       (SELECT g.chain FROM redirect_chain g WHERE g.no = r.no) AS "httpRedirectChain",
       NOT (s.status IN (4, 5) AND coalesce(r.error_message, '') LIKE 'disallowed by %')
           AS "httpRobotsAllowed",
       CASE WHEN r.redirect_target IS NULL THEN r.canonical_url
            ELSE (SELECT g.target FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpCanonicalUrl",
       NULL::text AS "fileEtag",
       NULL::text AS "fileLastModified",
       NULL::bigint AS "fileLength",
       NULL::text AS "fileContentType",
       'sha256:' || encode(coalesce(c.content_hash, r.content_hash), 'hex') AS "contentHash",
       'sha256:' || encode(coalesce(c.text_hash, r.text_hash), 'hex') AS "textHash",
       c.language AS "language",
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS "mimeType",
       CASE WHEN x.name IS NULL THEN 'page_' ELSE u.name || ':' END
           || encode(CASE WHEN c.no IS NULL THEN NULL
                        WHEN r.entry > 0 AND (x.name IS NULL OR r.sunk IS NOT NULL) THEN r.id
                        WHEN o.entry > 0 AND (x.name IS NULL OR o.sunk IS NOT NULL) THEN o.id END, 'hex')
           AS "lastIndexedDocId",
       CASE WHEN c.no IS NULL OR r.duplicate_of IS NOT NULL THEN NULL ELSE c.image_count END
           AS "imageCount",
       iso(r.first_seen) AS "firstSeen",
       iso(s.last_checked) AS "lastChecked",
       iso(r.last_changed) AS "lastChanged",
       iso(r.last_indexed) AS "lastIndexed",
       s.failures AS "crawlAttempts",
       r.error_message AS "errorMessage",
       iso(s.next_visit) AS "nextCrawlAt",
       coalesce(s.interval, s.next_visit - s.last_checked) AS "crawlIntervalSeconds"
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  JOIN source u ON u.no = r.source
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
  LEFT JOIN choice x ON x.name = 'index identity'
--;
CREATE OR REPLACE VIEW "IngestItems" AS
SELECT "PartitionKey", "RowKey", "ETag", "id", "type", "normalizedSource", "displaySource",
       "sourceHost", "parentPageId", "status", "reindexRequested", "reindexGeneration", "httpEtag",
       "httpLastModified", "httpContentLength", "httpStatusCode", "httpRedirectChain",
       "httpRobotsAllowed", "httpCanonicalUrl", "fileEtag", "fileLastModified", "fileLength",
       "fileContentType", "contentHash", "textHash", "language", "mimeType", "lastIndexedDocId",
       "imageCount", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "crawlAttempts",
       "errorMessage", "nextCrawlAt", "crawlIntervalSeconds"
  FROM ingest_entity
--;
CREATE OR REPLACE VIEW pages AS
SELECT r.no AS id,
       r.source AS version_id,
       r.url AS url,
       c.title AS title,
       r.etag AS etag,
       r.last_modified AS last_modified,
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS content_type,
       s.depth AS depth,
       iso(r.first_indexed) AS created_at,
       iso(r.last_changed) AS updated_at
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
--;
-- Pages with stored links only, if they link into the source.
CREATE OR REPLACE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS content_type,
       c.charset AS charset,
       c.title AS title,
       (SELECT t.txt FROM content_text t WHERE t.content = c.no) AS txt,
       r.content_length AS docsize,
       NULL::text AS keywords,
       c.description AS description,
       c.language AS lang,
       NULL::text AS words,
       coalesce(l.count, 0) AS hrefs
  FROM record r
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  JOIN state s ON s.no = r.no
 WHERE (s.standing = 2 AND r.entry > 0)
    OR (s.standing = 1 AND r.kind = 0 AND length(l.targets) > 0)
