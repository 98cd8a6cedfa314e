-- Pages whose new texts other pages got, too, wait for the end of their run beside collapsed ones.
-- Whether less than a tenth of the text is left.
ALTER TABLE collapse ADD COLUMN shrank BOOLEAN NOT NULL DEFAULT TRUE
--;
-- Whether another page got the text, and does not wait.
ALTER TABLE collapse ADD COLUMN repeated BOOLEAN NOT NULL DEFAULT FALSE
--;
-- Hash of the new content.
ALTER TABLE collapse ADD COLUMN content_hash BYTEA
