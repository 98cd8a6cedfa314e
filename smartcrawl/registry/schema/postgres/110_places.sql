-- Places in a chunk to which an address leads (ADR 162): JSON [[start, id, defines], ...]; NULL: not known yet.
ALTER TABLE chunk ADD COLUMN places TEXT
--;
CREATE OR REPLACE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_build_object('level', k.level, 'path', k.headings,
                         'types', string_to_array(k.types, ','),
                         'repeated', k.repeated, 'hash', encode(k.hash, 'hex'),
                         'section', CASE WHEN k.places::json #>> '{0,0}' = '0'
                                         THEN k.places::json #>> '{0,1}' END)::text AS metadata,
       k.position AS sort_order,
       (SELECT v.embedding FROM chunk_embedding v WHERE v.hash = k.hash) AS embedding,
       to_timestamp(r.last_changed) AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
UNION ALL
SELECT r.no << 20, r.no, c.txt,
       json_build_object('level', 1, 'path', '', 'types', json_build_array('text'), 'repeated', 0, 'hash', NULL,
                                             'section', NULL)::text,
       0, NULL, to_timestamp(r.last_changed)
  FROM content c JOIN record r ON r.content = c.no AND r.entry > 0
 WHERE c.txt IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chunk k WHERE k.content = c.no)
