-- The logins of sources: who asks, and the attempts that were refused (ADR 146). No secret is here.
CREATE TABLE login (
    source     TEXT PRIMARY KEY,                       -- source.name
    identity   BYTEA,                                   -- digest of kind, origins and user; NULL: no login
    refusals   INTEGER NOT NULL DEFAULT 0,             -- in a row, of one configuration
    refused_at BIGINT,                                -- Unix seconds; NULL: the last attempt was not refused
    why        TEXT,
    salt       BYTEA,
    mark       BYTEA,                                   -- two bytes of a digest of the refused configuration
    run        BIGINT,                                -- run.no of the last attempt
    state      INTEGER,                                -- registry.runs.logins.LoginState
    at         BIGINT                                 -- Unix seconds, when it began
)
