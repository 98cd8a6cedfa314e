-- Drives of document libraries as they were at a delta token of Microsoft Graph (ADR 84).
CREATE TABLE library_drive (
    source  BIGINT PRIMARY KEY,                          -- source.no
    place   TEXT NOT NULL,                               -- JSON: API, app and library
    drive   TEXT NOT NULL,                               -- id
    root    TEXT NOT NULL,                               -- server relative URL of the library
    root_id TEXT NOT NULL,
    delta   TEXT NOT NULL,                               -- URL of the changes since
    items   BIGINT NOT NULL                              -- rows of library_drive_item
)
--;
CREATE TABLE library_drive_item (
    source        BIGINT NOT NULL,                       -- source.no
    id            TEXT NOT NULL,                         -- of the drive
    parent        TEXT NOT NULL,                         -- id of its folder
    name          TEXT NOT NULL,                         -- as JSON: it may have NUL in it
    listitem_id   BIGINT,                                -- NULL, as all that follows: it is a folder
    unique_id     TEXT,
    file_size     BIGINT,                                -- bytes
    last_modified BIGINT,                                -- Unix microseconds
    PRIMARY KEY (source, id)
)
