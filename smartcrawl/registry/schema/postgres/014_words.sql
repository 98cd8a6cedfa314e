-- The distinct words of a page, a blank between (docs/adr/0042).
-- Of pages whose links alone are kept, those that link into the source.
CREATE OR REPLACE VIEW urlwords AS
SELECT (SELECT count(DISTINCT w.word) FROM content_word w WHERE w.content = c.no) AS wordcount,
       (SELECT count(*) FROM content_word w WHERE w.content = c.no) AS totalcount,
       nullif(lower(trim(split_part(r.content_type, ';', 1))), '') AS content_type,
       c.charset AS charset,
       c.title AS title,
       (SELECT t.txt FROM content_text t WHERE t.content = c.no) AS txt,
       r.content_length AS docsize,
       NULL::text AS keywords,
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
