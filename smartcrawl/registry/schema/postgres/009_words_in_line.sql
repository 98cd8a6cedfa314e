-- A chunk and its words exceed slightly the 2,000 bytes above which PostgreSQL compresses a row and
-- moves columns out of it. That took an eighth of the time for storing them.
ALTER TABLE chunk SET (toast_tuple_target = 8160)
