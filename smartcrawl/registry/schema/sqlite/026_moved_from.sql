-- The record (record.no) of the former address of a renamed file (docs/adr/0065).
ALTER TABLE record ADD COLUMN moved_from INTEGER
