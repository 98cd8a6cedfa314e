-- Nothing locks single addresses: a claim number fences each write (docs/adr/0041).
ALTER TABLE item DROP COLUMN locked_until
