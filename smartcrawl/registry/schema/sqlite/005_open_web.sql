-- Sitemaps and feeds, what cut a run, and hosts as they are being asked.

-- 0: a page; 1 to 3: a sitemap or feed, at this nesting.
ALTER TABLE record ADD COLUMN kind INTEGER NOT NULL DEFAULT 0
--;
CREATE INDEX record_sitemap ON record (source) WHERE kind > 0
--;
CREATE INDEX content_without_text ON content (source) WHERE text_length = 0
--;
-- JSON {reasons, refused}: what kept a run from seeing everything, so far.
ALTER TABLE run ADD COLUMN cut TEXT NOT NULL DEFAULT '{}'
--;
-- Hosts of the runs that are open, as of the last batch. Times are Unix seconds.
CREATE TABLE host_now (
    host         INTEGER PRIMARY KEY REFERENCES host (no),
    run          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    delay_ms     INTEGER NOT NULL,
    in_flight    INTEGER NOT NULL,
    parked_until INTEGER,                                -- nobody answers
    paused_until INTEGER,                                -- as Retry-After asked
    is_down      INTEGER NOT NULL DEFAULT 0              -- given up for the run
)
--;
-- When the rules of an origin could not be had last, and why; NULL: they could since.
ALTER TABLE host ADD COLUMN robots_failed_at INTEGER
--;
ALTER TABLE host ADD COLUMN robots_error TEXT
--;
-- What its last Retry-After asked for, and when.
ALTER TABLE host ADD COLUMN retry_after INTEGER
--;
ALTER TABLE host ADD COLUMN retry_after_at INTEGER
