-- Places in a chunk to which an address leads (ADR 162): JSON [[start, id, defines], ...]; NULL: not known yet.
ALTER TABLE chunk ADD COLUMN places TEXT
--;
DROP VIEW documents
--;
CREATE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_object('level', k.level, 'path', k.headings,
                   'types', json('["' || replace(k.types, ',', '","') || '"]'),
                   'repeated', k.repeated, 'hash', lower(hex(k.hash)),
                   'section', CASE WHEN k.places ->> '$[0][0]' = 0 THEN k.places ->> '$[0][1]' END) AS metadata,
       k.position AS sort_order,
       (SELECT v.vector FROM vector v
         WHERE v.hash = k.hash
           AND v.embedder = (SELECT e.no FROM embedder e WHERE e.whole_at IS NOT NULL
                              ORDER BY e.whole_at DESC, e.no DESC LIMIT 1)) AS embedding,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
UNION ALL
SELECT r.no << 20, r.no, c.txt,
       json_object('level', 1, 'path', '', 'types', json_array('text'), 'repeated', 0, 'hash', NULL,
                                        'section', NULL), 0,
       NULL, strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch')
  FROM content c JOIN record r ON r.content = c.no AND r.entry > 0
 WHERE c.txt IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chunk k WHERE k.content = c.no)
