-- Whether the ETags of a host rotate (ADR 36), and whether those that are not coded bring a 304 (ADR 105).
ALTER TABLE trust ADD COLUMN rotating INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE trust ADD COLUMN plain_unheard INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE trust ADD COLUMN plain_heard INTEGER NOT NULL DEFAULT 0
--;
UPDATE trust SET rotating = 1, matched = 0 WHERE rotated >= 2 AND rotated * 2 >= repeated AND matched < rotated
