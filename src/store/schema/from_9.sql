-- Version 9 to 10: no condition of a bind builds a table in memory (docs/why/028).  The conditions say the same in other words
-- and no row changes, so their text is edited in place.

PRAGMA writable_schema=ON;

UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (state IN (''reserved'', ''bound'', ''released''))',
    'CHECK (state = ''reserved'' OR state = ''bound'' OR state = ''released'')')
WHERE type = 'table' AND name = 'allocation';

UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (kind IN (''app'', ''init'', ''sidecar''))',
    'CHECK (kind = ''app'' OR kind = ''init'' OR kind = ''sidecar'')')
WHERE type = 'table' AND name = 'share';

PRAGMA writable_schema=RESET;

-- It has all that the sums of a GPU ask for, so no row of charge is read for them.
DROP INDEX charge_live;
CREATE INDEX charge_live ON charge (node, gpu, milli, mib, live) WHERE live = 1;

DROP TRIGGER charge_within;
DROP TRIGGER charge_named;

CREATE TRIGGER charge_within AFTER INSERT ON charge
WHEN NEW.live = 1 AND (SELECT origin FROM allocation WHERE id = NEW.allocation) = 'granted'
BEGIN
    SELECT RAISE(ABORT, 'a grant beyond the GPU') WHERE NOT EXISTS (
        SELECT 1 FROM gpu AS g
        WHERE g.node = NEW.node AND g.flags = 0
        AND g.id = coalesce((SELECT id FROM gpu WHERE node = NEW.node AND id = NEW.gpu),
                            (SELECT id FROM gpu WHERE node = NEW.node AND alias = NEW.gpu))
        AND (SELECT sum(milli) <= g.milli AND (g.mib = 0 OR sum(mib) <= g.mib) FROM (
             SELECT c.milli, c.mib FROM charge AS c
             WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.id
             UNION ALL SELECT c.milli, c.mib FROM charge AS c
             WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.alias)));
END;

CREATE TRIGGER charge_named AFTER INSERT ON charge
WHEN NEW.live = 1
BEGIN
    SELECT RAISE(ABORT, 'a charge on another node than its allocation')
    WHERE NEW.node IS NOT (SELECT lives_on FROM allocation WHERE id = NEW.allocation);
    SELECT RAISE(ABORT, 'a charge of a GPU that the node does not have')
    WHERE NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND id = NEW.gpu)
      AND NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND alias = NEW.gpu);
END;
