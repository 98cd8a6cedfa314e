-- Keys of the HTTP API (server/keys.py). The key itself is shown once, when it is made.
CREATE TABLE api_key (
    id      TEXT PRIMARY KEY,                            -- the part between sc_ and the secret
    name    TEXT NOT NULL,                               -- who has it, as the operator calls it
    scope   TEXT NOT NULL,                               -- read, operate or admin
    hash    BYTEA NOT NULL,                              -- SHA-256 of the whole key
    created BIGINT NOT NULL,                             -- Unix seconds
    expires BIGINT,                                      -- Unix seconds; NULL: never
    revoked BIGINT                                       -- Unix seconds; NULL: it counts
)
