-- Pages that were read both ways, with and without a browser, to compare (docs/adr/rendering.md).
CREATE TABLE render_sample (
    no       INTEGER PRIMARY KEY,                      -- of a digest of source and address
    source   INTEGER NOT NULL,                         -- source.no
    template TEXT NOT NULL,                            -- host, first folder and depth
    words    INTEGER NOT NULL,                         -- of the rendering
    lines    BLOB NOT NULL,                            -- packed pairs: digest of a line that has new words, how many
    links    BLOB NOT NULL,                            -- packed digests of links that the document lacks
    refused  TEXT NOT NULL DEFAULT '[]'                -- JSON: hosts whose data the page did not get
)
--;
CREATE INDEX render_sample_source ON render_sample (source)
