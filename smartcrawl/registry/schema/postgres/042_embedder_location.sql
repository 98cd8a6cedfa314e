-- Where a model is: the folder of onnx, the address of openai; NULL: the model needs none, or an older version made the vectors.
ALTER TABLE embedder ADD COLUMN location TEXT
