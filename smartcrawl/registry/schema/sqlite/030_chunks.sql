-- What a chunk is: the level of its heading, what is in it, and what it repeats (ADR 70).
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
