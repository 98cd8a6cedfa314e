-- The few vectors without a use are found without reading all vectors.
CREATE INDEX vector_unused ON vector (unused_since) WHERE unused_since IS NOT NULL
