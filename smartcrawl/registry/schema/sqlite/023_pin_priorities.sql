-- The priority of a pinned page among those of its host (ADR 60).
ALTER TABLE pin ADD COLUMN priority INTEGER NOT NULL DEFAULT 5
--;
-- Addresses that were posted to be pinned; the next run of their source registers them.
CREATE TABLE pending_pin (
    source   TEXT NOT NULL,                              -- name; it may never have been crawled
    id       BLOB NOT NULL,                              -- as record.id
    url      TEXT NOT NULL,                              -- request URL
    host     TEXT NOT NULL,                              -- as host.name
    at       INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID
--;
CREATE INDEX pending_pin_id ON pending_pin (id)
--;
DROP VIEW url_frontier
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
