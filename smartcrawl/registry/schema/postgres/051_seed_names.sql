-- Where the name of a seed led when it was first crawled (ADR 123): 0 public, 1 private, 2 anywhere, as the operator said.
CREATE TABLE seed_name (
    name  TEXT PRIMARY KEY,
    reach smallint NOT NULL
)
