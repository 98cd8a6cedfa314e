-- Keywords of a page; NULL: stored before this column existed (ADR 42).
ALTER TABLE content ADD COLUMN keywords TEXT
--;
-- The text, if the index is external; NULL: its chunks are in the table chunk.
ALTER TABLE content ADD COLUMN txt TEXT
--;
CREATE OR REPLACE VIEW content_text (content, txt) AS
SELECT c.no, coalesce((SELECT string_agg(k.text, chr(10) ORDER BY k.position) FROM chunk k WHERE k.content = c.no),
                      c.txt)
  FROM content c
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
       coalesce(l.count, 0) AS hrefs
  FROM record r
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  JOIN state s ON s.no = r.no
 WHERE (s.standing = 2 AND r.entry > 0)
    OR (s.standing = 1 AND r.kind = 0 AND length(l.targets) > 0)
