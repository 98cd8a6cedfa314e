-- The few texts that an embedder refused are found without reading all vectors.
CREATE INDEX chunk_vector_refused ON chunk_vector (embedder) WHERE refused IS NOT NULL
