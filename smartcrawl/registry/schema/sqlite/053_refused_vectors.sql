-- The few texts that an embedder refused are found without reading all vectors.
CREATE INDEX vector_refused ON vector (embedder) WHERE refused IS NOT NULL
