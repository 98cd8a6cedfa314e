-- What a chunk is: the level of its heading, what is in it, and what it repeats (docs/adr/0070).
ALTER TABLE chunk ADD COLUMN level INTEGER NOT NULL DEFAULT 0
--;
-- Words of BLOCK_KINDS and "text", separated by commas.
ALTER TABLE chunk ADD COLUMN types TEXT NOT NULL DEFAULT 'text'
--;
-- Characters at the beginning of the text that an earlier chunk has, too.
ALTER TABLE chunk ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0
--;
-- Digest of title, headings and text (16 bytes); NULL: stored before schema 30.
ALTER TABLE chunk ADD COLUMN hash BLOB
--;
DROP VIEW content_text
--;
CREATE VIEW content_text (content, txt) AS
SELECT c.no, coalesce((SELECT group_concat(text, char(10)) FROM
                          (SELECT substr(k.text, k.repeated + 1) AS text FROM chunk k
                            WHERE k.content = c.no ORDER BY k.position)), c.txt)
  FROM content c
--;
DROP VIEW documents
--;
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
       NULL AS embedding,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.last_changed, 'unixepoch') AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
