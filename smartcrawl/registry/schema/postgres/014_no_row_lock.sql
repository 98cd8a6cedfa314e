-- Single addresses have no lock: a claim number fences each write (docs/adr/0041).
ALTER TABLE item DROP COLUMN locked_until
