-- How far a web site reaches from its seeds (ADR 144): pages, host, domain or below; NULL: the
-- first answer of its seed decides. Sources that exist have their hosts.
ALTER TABLE source ADD COLUMN scope TEXT DEFAULT 'host'
--;
-- The page or folder that the scope is of, after the redirects of the seed; NULL: not known.
ALTER TABLE source ADD COLUMN start TEXT
--;
-- JSON: what was chosen when an address was crawled, by the key of sources.toml; "ways" are the
-- addresses by which its seed led to the start.
ALTER TABLE source ADD COLUMN chosen TEXT NOT NULL DEFAULT '{}'
