-- Items of document libraries are files, too: their identity says so, and their URL does not.
CREATE OR REPLACE VIEW ingest_entity AS
SELECT r.no AS no,
       item_partition(coalesce(r.identity, r.url), h.name,
                      (SELECT value FROM choice WHERE name = 'partition') = 'scheme')
           AS "PartitionKey",
       row_key(r.id) AS "RowKey",
       s.number || '.' || coalesce(i.revision, 0) AS "ETag",
       p.type || '_' || row_key(r.id) AS "id",
       p.type AS "type",
       coalesce(r.identity, r.url) AS "normalizedSource",
       CASE WHEN h.display IS NULL THEN r.url
            ELSE replace(r.url, '://' || h.name, '://' || h.display) END AS "displaySource",
       CASE p.type WHEN 'url' THEN h.name END AS "sourceHost",
       NULL::text AS "parentPageId",
       CASE s.status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Crawled' WHEN 2 THEN 'Indexed'
                     WHEN 3 THEN 'Error' WHEN 4 THEN 'OutOfScope' ELSE 'Gone' END AS "status",
       coalesce(i.requested, FALSE) AS "reindexRequested",
       coalesce(i.generation, 0) AS "reindexGeneration",
       CASE p.type WHEN 'url' THEN r.etag END AS "httpEtag",
       CASE p.type WHEN 'url' THEN received_at(r.last_modified) END AS "httpLastModified",
       CASE p.type WHEN 'url' THEN r.content_length END AS "httpContentLength",
       CASE WHEN p.type = 'file' THEN NULL
            WHEN s.http_status = 304 AND s.standing > 0 THEN 200 ELSE s.http_status END
           AS "httpStatusCode",
       CASE p.type WHEN 'url' THEN (SELECT g.chain FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpRedirectChain",
       CASE p.type WHEN 'url' THEN
            NOT (s.status IN (4, 5) AND coalesce(r.error_message, '') LIKE 'disallowed by %') END
           AS "httpRobotsAllowed",
       CASE WHEN p.type = 'file' THEN NULL
            WHEN r.redirect_target IS NULL THEN r.canonical_url
            ELSE (SELECT g.target FROM redirect_chain g WHERE g.no = r.no) END
           AS "httpCanonicalUrl",
       CASE p.type WHEN 'file' THEN r.etag END AS "fileEtag",
       CASE p.type WHEN 'file' THEN modified_at(coalesce(r.identity, r.url), r.last_modified) END AS "fileLastModified",
       CASE p.type WHEN 'file' THEN r.content_length END AS "fileLength",
       CASE p.type WHEN 'file' THEN r.content_type END AS "fileContentType",
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
  CROSS JOIN LATERAL (SELECT item_type(coalesce(r.identity, r.url), h.name)) AS p (type)
  JOIN source u ON u.no = r.source
  LEFT JOIN item i ON i.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN record o ON o.no = r.duplicate_of
  LEFT JOIN choice x ON x.name = 'index identity'
--;
CREATE OR REPLACE VIEW crawled_documents AS
SELECT encode(r.id, 'hex') AS url_hash,
       r.url AS url,
       h.name AS domain,
       s.effective_status AS http_status,
       r.content_type AS content_type,
       r.content_length AS content_length,
       r.content_encoding AS content_encoding,
       r.etag AS etag,
       modified_at(coalesce(r.identity, r.url), r.last_modified) AS last_modified,
       encode(coalesce(c.content_hash, r.content_hash), 'hex') AS content_hash,
       t.url || '/' || p.path AS storage_path,
       iso(s.last_checked) AS crawled_at,
       c.title AS title,
       coalesce(l.count, 0) AS outlinks_count,
       r.duplicate_of IS NOT NULL AS is_duplicate,
       encode(o.id, 'hex') AS duplicate_of
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  LEFT JOIN snapshot p ON p.no = r.snapshot
  LEFT JOIN store t ON t.no = p.store
  LEFT JOIN record o ON o.no = r.duplicate_of
 WHERE s.standing > 0 OR s.effective_status IN (301, 302, 303, 307, 308)
