-- What a chunk is: the level of its heading, what is in it, and what it repeats (ADR 70).
ALTER TABLE chunk
    ADD COLUMN level INTEGER NOT NULL DEFAULT 0,
    -- Words of BLOCK_KINDS and "text", separated by commas.
    ADD COLUMN types TEXT NOT NULL DEFAULT 'text',
    -- Characters at the beginning of the text that an earlier chunk has, too.
    ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0,
    -- Digest of title, headings and text (16 bytes); NULL: stored before schema 31.
    ADD COLUMN hash BYTEA
--;
CREATE OR REPLACE VIEW content_text (content, txt) AS
SELECT c.no, coalesce((SELECT string_agg(substr(k.text, k.repeated + 1), chr(10) ORDER BY k.position)
                         FROM chunk k WHERE k.content = c.no), c.txt)
  FROM content c
--;
CREATE OR REPLACE VIEW documents AS
SELECT (r.no << 20) | k.position AS id,
       r.no AS page_id,
       k.text AS content,
       json_build_object('level', CASE WHEN k.hash IS NULL
                                     THEN length(k.headings) - length(replace(k.headings, ' > ', '  ')) + 1
                                     ELSE k.level END, 'path', k.headings,
                         'types', string_to_array(k.types, ','),
                         'repeated', k.repeated, 'hash', encode(k.hash, 'hex'))::text AS metadata,
       k.position AS sort_order,
       NULL::bytea AS embedding,
       iso(r.last_changed) AS created_at
  FROM chunk k JOIN record r ON r.content = k.content AND r.entry > 0
