-- The page that an order is to forget; NULL: it is about the removals of a run.
ALTER TABLE removal_order ADD COLUMN url TEXT
