-- Single addresses have no lock: a claim number fences each write (ADR 41).
ALTER TABLE item DROP COLUMN locked_until
