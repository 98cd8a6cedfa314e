-- Items of document libraries, and where their files are (ADR 83).
CREATE TABLE library_item (
    no                  BIGINT PRIMARY KEY,             -- record.no
    source              BIGINT NOT NULL,                -- source.no
    listitem_id         BIGINT NOT NULL,
    unique_id           TEXT NOT NULL,                   -- GUID, lower case
    filename            TEXT NOT NULL,
    server_relative_url TEXT NOT NULL,                   -- decoded
    file_size           BIGINT NOT NULL,                -- bytes
    last_modified       BIGINT NOT NULL,                -- Unix microseconds
    path                TEXT,                            -- below the folder of the source; NULL: no file
    downloaded          BIGINT,                         -- Unix microseconds
    sharepoint_error    TEXT,
    processing_error    TEXT
)
--;
CREATE INDEX library_item_source ON library_item (source, path)
--;
-- Renamings on disk that are under way: undone if their transaction is missing.
CREATE TABLE library_move (
    no     BIGINT PRIMARY KEY,                          -- record.no
    source BIGINT NOT NULL,                             -- source.no
    held   TEXT,                                         -- place of its bytes before; NULL: none
    staged TEXT,                                         -- name of new bytes in the incoming folder; NULL: none
    target TEXT                                          -- place of its bytes afterwards; NULL: none
)
--;
CREATE INDEX library_move_source ON library_move (source)
--;
-- Every address that an item of a library ever had: `why` finds its record by each.
CREATE TABLE library_address (
    url TEXT NOT NULL,
    no  BIGINT NOT NULL,                             -- record.no
    PRIMARY KEY (url, no)
)
