-- A chunk and its words are somewhat more than the 2,000 bytes from which on PostgreSQL compresses
-- a row and moves columns out of it, which cost an eighth of what it takes to store them.
ALTER TABLE chunk SET (toast_tuple_target = 8160)
