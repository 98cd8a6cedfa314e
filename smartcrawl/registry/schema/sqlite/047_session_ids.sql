-- Session ids are no part of an address any more: the next run of a source with such addresses computes its ids anew.
INSERT INTO recompute (source)
SELECT DISTINCT s.name FROM record r JOIN source s ON s.no = r.source
 WHERE lower(r.url) LIKE '%sessionid%=%' OR lower(r.url) LIKE '%sessid=%' OR lower(r.url) LIKE '%cfid=%'
       OR lower(r.url) LIKE '%cftoken=%' OR lower(r.url) LIKE '%zenid=%' OR lower(r.url) LIKE '%oscsid=%'
ON CONFLICT (source) DO NOTHING
