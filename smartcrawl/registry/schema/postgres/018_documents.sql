-- Documents by the time of their last visit, of all hosts or of one (ADR 55).
-- The host is also in record; here it lets one index find the documents of a host in that order.
ALTER TABLE state ADD COLUMN host BIGINT
--;
UPDATE state s SET host = r.host FROM record r WHERE r.no = s.no
--;
CREATE INDEX state_checked ON state (last_checked, no)
 WHERE last_checked IS NOT NULL AND (standing > 0 OR effective_status IN (301, 302, 303, 307, 308))
--;
CREATE INDEX state_host_checked ON state (host, last_checked, no)
 WHERE last_checked IS NOT NULL AND (standing > 0 OR effective_status IN (301, 302, 303, 307, 308))
--;
CREATE INDEX host_crawled ON host (last_crawled_at)
