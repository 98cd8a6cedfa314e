-- Sitemaps and feeds, shortcomings of a run, and the present state of hosts.

-- 0: a page; 1 to 3: a sitemap or feed, at this nesting.
ALTER TABLE record ADD COLUMN kind INTEGER NOT NULL DEFAULT 0
--;
CREATE INDEX record_sitemap ON record (source) WHERE kind > 0
--;
CREATE INDEX content_without_text ON content (source) WHERE text_length = 0
--;
-- JSON {reasons, refused}: why a run has not seen everything so far.
ALTER TABLE run ADD COLUMN cut TEXT NOT NULL DEFAULT '{}'
--;
-- Hosts of the open runs, as of the last batch. Times are Unix seconds.
CREATE TABLE host_now (
    host         INTEGER PRIMARY KEY REFERENCES host (no),
    run          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    delay_ms     INTEGER NOT NULL,
    in_flight    INTEGER NOT NULL,
    parked_until INTEGER,                                -- the host does not answer
    paused_until INTEGER,                                -- as Retry-After requires
    is_down      INTEGER NOT NULL DEFAULT 0              -- given up for the run
)
--;
-- Time and error of the last failed fetch of robots.txt; NULL: a later one succeeded.
ALTER TABLE host ADD COLUMN robots_failed_at INTEGER
--;
ALTER TABLE host ADD COLUMN robots_error TEXT
--;
-- Its last Retry-After: seconds, and time.
ALTER TABLE host ADD COLUMN retry_after INTEGER
--;
ALTER TABLE host ADD COLUMN retry_after_at INTEGER
