-- Chunks that got a vector in it; NULL: without an embedder.
ALTER TABLE run ADD COLUMN embedded INTEGER
--;
-- Chunks of its source without a vector at its end.
ALTER TABLE run ADD COLUMN owed INTEGER
