-- Times as times, hashes of bodies, answers of sitemaps, keys of the word tables, and texts that an index elsewhere has
-- (docs/tables.md). "IngestItems" keeps its times as text, as its specification has them.
-- A time that a server wrote; NULL: it is none, such as the 31st of February.
CREATE FUNCTION time_of (written text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE STRICT
    AS $$
BEGIN
    RETURN written::timestamptz;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN NULL;
END
$$
--;
DROP VIEW url_frontier
--;
CREATE VIEW url_frontier AS
SELECT encode(r.id, 'hex') AS url_hash,
       r.url AS url,
       h.name AS domain,
       coalesce(q.priority, 5) AS priority,
       s.depth AS depth,
       to_timestamp(r.first_seen) AS discovered_at,
       encode(p.id, 'hex') AS discovered_from,
       CASE s.status WHEN 0 THEN 'pending' WHEN 1 THEN 'completed' WHEN 2 THEN 'completed'
                     WHEN 4 THEN 'blocked' ELSE 'failed' END AS status,
       to_timestamp(s.last_checked) AS last_crawl_attempt,
       s.attempts AS crawl_count,
       s.http_status AS last_status_code,
       to_timestamp(coalesce(s.next_visit, r.first_seen)) AS next_crawl_after
  FROM record r
  JOIN state s USING (no)
  JOIN host h ON h.no = r.host
  LEFT JOIN record p ON p.no = r.discovered_from
  LEFT JOIN pin q ON q.no = r.no
UNION ALL
SELECT encode(w.id, 'hex'), w.url, w.host, w.priority, 0, to_timestamp(w.at), NULL, 'pending', NULL, 0, NULL,
       to_timestamp(w.at)
  FROM pending_pin w
 WHERE NOT EXISTS (SELECT 1 FROM record r JOIN source o ON o.no = r.source
                    WHERE o.name = w.source AND r.id = w.id)
--;
DROP VIEW crawled_documents
--;
CREATE VIEW crawled_documents AS
SELECT encode(r.id, 'hex') AS url_hash,
       r.url AS url,
       h.name AS domain,
       CASE WHEN r.kind <> 0 AND s.effective_status = 406 AND s.http_status IN (200, 304) THEN 200
            ELSE s.effective_status END AS http_status,
       r.content_type AS content_type,
       r.content_length AS content_length,
       r.content_encoding AS content_encoding,
       r.etag AS etag,
       time_of(modified_at(coalesce(r.identity, r.url), r.last_modified)) AS last_modified,
       encode(CASE WHEN s.effective_status BETWEEN 300 AND 399 THEN NULL ELSE r.body_hash END, 'hex')
           AS content_hash,
       t.url || '/' || p.path AS storage_path,
       to_timestamp(s.last_checked) AS crawled_at,
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
--;
DROP VIEW outlinks
--;
CREATE VIEW outlinks AS
SELECT (l.no << 16) + k.place - 1 AS id,
       encode(r.id, 'hex') AS source_url_hash,
       k.link ->> 0 AS target_url,
       coalesce(CASE WHEN k.link ->> 2 = 'redirect' THEN encode(t.id, 'hex') END, k.link ->> 4,
                encode(sha256(convert_to(k.link ->> 0, 'UTF8')), 'hex')) AS target_url_hash,
       k.link ->> 1 AS anchor_text,
       CASE WHEN k.link ->> 2 IN ('redirect', 'canonical') THEN k.link ->> 2 ELSE 'hyperlink' END
           AS link_type,
       to_timestamp(r.first_seen) AS discovered_at
  FROM links l
  JOIN record r USING (no)
  LEFT JOIN record t ON t.no = r.redirect_no
 CROSS JOIN json_array_elements(convert_from(l.raw, 'UTF8')::json) WITH ORDINALITY AS k (link, place)
--;
DROP VIEW domain_stats
--;
CREATE VIEW domain_stats AS
SELECT name AS domain,
       pages_crawled,
       pages_failed,
       bytes_downloaded,
       to_timestamp(first_crawled_at) AS first_crawled_at,
       to_timestamp(last_crawled_at) AS last_crawled_at,
       CASE WHEN pages_crawled > 0 THEN response_ms / pages_crawled END AS avg_response_time_ms,
       to_timestamp(robots_fetched_at) AS robots_txt_fetched_at,
       encode(robots_hash, 'hex') AS robots_txt_hash,
       crawl_delay_ms,
       CASE WHEN pages_crawled + pages_failed > 0
            THEN pages_failed::double precision / (pages_crawled + pages_failed) ELSE 0.0 END AS error_rate,
       is_blocked,
       block_reason
  FROM host CROSS JOIN (SELECT) AS unwritable
--;
DROP VIEW crawl_jobs
--;
-- The table crawl_jobs of the seed (R2-58). Counts are those of the job's last run that was opened.
CREATE VIEW crawl_jobs AS
SELECT j.id AS job_id,
       j.name AS name,
       j.definition::jsonb -> 'config' AS config,
       j.definition::jsonb -> 'seed_urls' AS seed_urls,
       j.definition::jsonb -> 'filters' AS filters,
       j.definition::jsonb #>> '{schedule,type}' AS schedule_type,
       j.definition::jsonb #>> '{schedule,cron}' AS cron_expression,
       j.status AS status,
       coalesce(r.visits, 0) AS pages_crawled,
       coalesce(r.queued, 0) AS pages_queued,
       coalesce((r.words::jsonb ->> 'failed')::bigint, 0)
           + coalesce((r.words::jsonb ->> 'lost')::bigint, 0)
           + coalesce((r.words::jsonb ->> 'gone')::bigint, 0) AS pages_failed,
       coalesce(r.bytes_downloaded, 0) AS bytes_downloaded,
       to_timestamp(j.created_at) AS created_at,
       to_timestamp(j.started_at) AS started_at,
       to_timestamp(j.completed_at) AS completed_at
  FROM job j
  LEFT JOIN run r ON r.no = (SELECT max(k.run) FROM job_run k WHERE k.job = j.no)
 WHERE j.deleted_at IS NULL
--;
DROP VIEW versions
--;
CREATE VIEW versions AS
SELECT no AS id, name, to_timestamp(created_at) AS created_at FROM source CROSS JOIN (SELECT) AS unwritable
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
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS content_type,
       s.depth AS depth,
       to_timestamp(r.first_indexed) AS created_at,
       to_timestamp(r.last_changed) AS updated_at
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
--;
-- Columns are added at the end of the word tables: the key of the record. That of urlwords is that of urlword.
CREATE OR REPLACE VIEW urlword AS
SELECT r.url AS url,
       h.name AS site,
       CASE WHEN s.http_status IN (200, 304) OR s.effective_status IS NULL OR s.http_status IS NULL
                 OR s.http_status = s.effective_status
            THEN coalesce(s.effective_status, s.http_status, 0)
            ELSE (s.http_status << 16) | s.effective_status END AS status,
       s.last_answered AS last_index_time,
       s.next_visit AS next_index_time,
       encode(coalesce(c.content_hash, r.content_hash), 'hex') AS crc,
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
-- Pages with stored links only, if they link into the source.
CREATE OR REPLACE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS content_type,
       c.charset AS charset,
       c.title AS title,
       (SELECT t.txt FROM content_text t WHERE t.content = c.no) AS txt,
       r.content_length AS docsize,
       nullif(c.keywords, '') AS keywords,
       c.description AS description,
       c.language AS lang,
       (SELECT string_agg(DISTINCT w.word, ' ' ORDER BY w.word) FROM content_word w WHERE w.content = c.no) AS words,
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
-- Vectors of chunks as bytes. The first vector replaces this view by one that has rows.
CREATE VIEW chunk_embedding AS
SELECT NULL::bytea AS hash, NULL::bytea AS embedding WHERE FALSE
--;
-- As in smartcrawl/registry/database/vector_column.py.
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_attribute
                WHERE attrelid = 'chunk_vector'::regclass AND attname = 'vector' AND NOT attisdropped) THEN
        EXECUTE $view$
CREATE OR REPLACE VIEW chunk_embedding AS
SELECT v.hash AS hash,
       (SELECT string_agg(substr(n.sent, 4, 1) || substr(n.sent, 3, 1) || substr(n.sent, 2, 1)
                          || substr(n.sent, 1, 1), ''::bytea ORDER BY n.place)
          FROM (SELECT float4send(number) AS sent, place
                  FROM unnest(v.vector::real[]) WITH ORDINALITY AS u (number, place)) n) AS embedding
  FROM chunk_vector v
 WHERE v.embedder = (SELECT e.no FROM embedder e WHERE e.whole_at IS NOT NULL
                      ORDER BY e.whole_at DESC, e.no DESC LIMIT 1)
        $view$;
    END IF;
END
$$
--;
-- Of a page whose chunks an index elsewhere has, the row is its text.
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_build_object('level', CASE WHEN k.hash IS NULL
                                     THEN length(k.headings) - length(replace(k.headings, ' > ', '  ')) + 1
                                     ELSE k.level END, 'path', k.headings,
                         'types', string_to_array(k.types, ','),
                         'repeated', k.repeated, 'hash', encode(k.hash, 'hex'))::text AS metadata,
       k.position AS sort_order,
       (SELECT v.embedding FROM chunk_embedding v WHERE v.hash = k.hash) AS embedding,
       to_timestamp(r.last_changed) AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
UNION ALL
SELECT r.no << 20, r.no, c.txt,
       json_build_object('level', 1, 'path', '', 'types', json_build_array('text'), 'repeated', 0, 'hash', NULL)::text,
       0, NULL, to_timestamp(r.last_changed)
  FROM content c JOIN record r ON r.content = c.no AND r.entry > 0
 WHERE c.txt IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chunk k WHERE k.content = c.no)
