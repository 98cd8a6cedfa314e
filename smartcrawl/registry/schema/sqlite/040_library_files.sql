-- Items of document libraries are files, too: their identity says so, and their URL does not.
DROP VIEW received
--;
-- Last-Modified as ISO 8601, from the three forms of RFC 9110 5.6.7; NULL if it has none of them.
-- A two-digit year is the latest such year that has begun, because no time is in the future. That
-- of a file is in ISO 8601 already.
CREATE VIEW received (no, last_modified) AS
SELECT no, CASE
  WHEN last_modified GLOB '[A-Z][a-z][a-z], [0-3][0-9] [A-Z][a-z][a-z] [0-9][0-9][0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT'
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) % 3 = 1
       THEN substr(last_modified, 13, 4)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 9, 3)) + 2) / 3)
            || '-' || substr(last_modified, 6, 2) || 'T' || substr(last_modified, 18, 8) || 'Z'
  WHEN substr(last_modified, -24) GLOB ', [0-3][0-9]-[A-Z][a-z][a-z]-[0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT'
            AND substr(last_modified, 1, length(last_modified) - 24) IN
                ('Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday')
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, -19, 3)) % 3 = 1
       THEN (strftime('%Y', 'now') - (strftime('%Y', 'now') - substr(last_modified, -15, 2) + 100) % 100)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, -19, 3)) + 2) / 3)
            || '-' || substr(last_modified, -22, 2) || 'T' || substr(last_modified, -12, 8) || 'Z'
  WHEN last_modified GLOB '[A-Z][a-z][a-z] [A-Z][a-z][a-z] [ 0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] [0-9][0-9][0-9][0-9]'
            AND instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 5, 3)) % 3 = 1
       THEN substr(last_modified, 21, 4)
            || '-' || printf('%02d', (instr('JanFebMarAprMayJunJulAugSepOctNovDec', substr(last_modified, 5, 3)) + 2) / 3)
            || '-' || replace(substr(last_modified, 9, 2), ' ', '0') || 'T' || substr(last_modified, 12, 8) || 'Z'
  WHEN NOT (coalesce(identity, url) GLOB 'http://*' OR coalesce(identity, url) GLOB 'https://*')
            AND last_modified GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*'
       THEN last_modified
  END
  FROM record
