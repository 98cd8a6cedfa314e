-- Keywords of a page; NULL: stored before this column existed (ADR 42).
ALTER TABLE content ADD COLUMN keywords TEXT
--;
-- The text, if the index is external; NULL: its chunks are in the table chunk.
ALTER TABLE content ADD COLUMN txt TEXT
--;
DROP VIEW content_text
--;
CREATE VIEW content_text (content, txt) AS
SELECT c.no, coalesce((SELECT group_concat(text, char(10)) FROM
                          (SELECT k.text FROM chunk k WHERE k.content = c.no ORDER BY k.position)), c.txt)
  FROM content c
--;
DROP VIEW urlwords
--;
-- Pages with stored links only, if they link into the source.
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
       coalesce(l.count, 0) AS hrefs
  FROM record r
  LEFT JOIN content c ON c.no = r.content
  LEFT JOIN links l ON l.no = r.no
  JOIN state s ON s.no = r.no
 WHERE (s.standing = 2 AND r.entry > 0)
    OR (s.standing = 1 AND r.kind = 0 AND length(l.targets) > 0)
