-- Whether the ETags of a host rotate (docs/adr/0036), and whether those that are not coded bring a 304 (docs/adr/0105).
ALTER TABLE trust ADD COLUMN rotating INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE trust ADD COLUMN plain_unheard INTEGER NOT NULL DEFAULT 0
--;
ALTER TABLE trust ADD COLUMN plain_heard INTEGER NOT NULL DEFAULT 0
--;
UPDATE trust SET rotating = 1, matched = 0 WHERE rotated >= 2 AND rotated * 2 >= repeated AND matched < rotated
