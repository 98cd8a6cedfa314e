-- Hashes of bodies, answers of sitemaps, keys of the word tables, and texts that an index elsewhere has (docs/tables.md).
DROP VIEW crawled_documents
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
       m.last_modified AS last_modified,
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
  JOIN received m ON m.no = r.no
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  LEFT JOIN snapshot p ON p.no = r.snapshot
  LEFT JOIN store t ON t.no = p.store
  LEFT JOIN record o ON o.no = r.duplicate_of
 WHERE s.standing > 0 OR s.effective_status IN (301, 302, 303, 307, 308)
--;
DROP VIEW crawl_jobs
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
       r.duplicate_of AS origin,
       r.no AS url_id
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN content c ON c.no = r.content
--;
DROP VIEW urlwords
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
--;
DROP VIEW documents
--;
-- The vector is that of the embedder that searches use. Of a page whose chunks an index elsewhere has, the row is its text.
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_object('level', CASE WHEN k.hash IS NULL
                                 THEN length(k.headings) - length(replace(k.headings, ' > ', '  ')) + 1
                                 ELSE k.level END, 'path', k.headings,
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
