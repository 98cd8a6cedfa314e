-- SQLite gets an index here (ADR 161). PostgreSQL needs none: it reads these facts with the rank of a chunk.
SELECT 1
