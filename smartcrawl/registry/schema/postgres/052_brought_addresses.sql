-- Sitemaps that named addresses before the mark was kept (model.pages.BROUGHT): one that answered 304 since was not read anew.
UPDATE record SET signs = signs | 4
 WHERE kind > 0 AND (signs & 4) = 0
   AND EXISTS (SELECT 1 FROM links l WHERE l.no = record.no AND l.count > 0)
   AND (error_message LIKE 'not indexed: a sitemap of %' OR error_message LIKE 'not indexed: an llms.txt of %'
        OR (lower(url) LIKE '%sitemap%' AND coalesce(error_message, '') NOT LIKE 'not indexed: a feed of %'))
