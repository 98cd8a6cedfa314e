-- The few vectors without a use are found without reading all vectors.
CREATE INDEX chunk_vector_unused ON chunk_vector (unused_since) WHERE unused_since IS NOT NULL
