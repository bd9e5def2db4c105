-- Version 11 to 12: what nearly every bind fulfils is asked once, and what only the end of an allocation needs is asked at its
-- end (docs/why/031).  No row changes.

DROP TRIGGER charge_within;
DROP TRIGGER charge_named;
DROP TRIGGER charge_stays;
DROP TRIGGER allocation_stays;
DROP TRIGGER allocation_lets_go;
DROP TRIGGER idle_ends;
DROP INDEX allocation_past;
DROP INDEX allocation_past_of;

CREATE INDEX allocation_past ON allocation (released_ms) WHERE bytes > 0;
CREATE INDEX allocation_past_of ON allocation (past_of, released_ms) WHERE bytes > 0;

CREATE TRIGGER charge_within AFTER INSERT ON charge
WHEN NEW.live = 1 AND NOT EXISTS (
    SELECT 1 FROM gpu AS g CROSS JOIN allocation AS a
    WHERE g.node = NEW.node AND g.id = NEW.gpu AND g.flags = 0
    AND a.id = NEW.allocation AND a.lives_on = NEW.node
    AND (SELECT sum(c.milli) <= g.milli AND (g.mib = 0 OR sum(c.mib) <= g.mib) FROM charge AS c
         WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = NEW.gpu)
    AND NOT EXISTS (SELECT 1 FROM charge AS c WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.alias))
BEGIN
    SELECT RAISE(ABORT, 'a charge on another node than its allocation')
    WHERE NEW.node IS NOT (SELECT lives_on FROM allocation WHERE id = NEW.allocation);
    SELECT RAISE(ABORT, 'a charge of a GPU that the node does not have')
    WHERE NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND id = NEW.gpu)
      AND NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND alias = NEW.gpu);
    SELECT RAISE(ABORT, 'a grant beyond the GPU')
    WHERE (SELECT origin FROM allocation WHERE id = NEW.allocation) = 'granted' AND NOT EXISTS (
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

CREATE TRIGGER charge_stays AFTER UPDATE OF allocation, gpu, at, node, milli, mib ON charge
BEGIN
    SELECT RAISE(ABORT, 'a charge never changes');
END;

CREATE TRIGGER charge_ends AFTER UPDATE OF live ON charge
WHEN NEW.live > OLD.live
BEGIN
    SELECT RAISE(ABORT, 'a charge never lives again');
END;

CREATE TRIGGER allocation_stays AFTER UPDATE OF uid, node, node_uid, origin, held_gpus ON allocation
BEGIN
    SELECT RAISE(ABORT, 'an allocation never moves');
END;

CREATE TRIGGER allocation_forward AFTER UPDATE ON allocation
WHEN OLD.state = 'released' OR (NEW.state = 'reserved' AND OLD.state <> 'reserved') OR NEW.version < OLD.version
  OR NEW.id <> OLD.id
BEGIN
    SELECT RAISE(ABORT, 'an allocation goes forward only');
END;

CREATE TRIGGER allocation_lets_go AFTER UPDATE OF bytes ON allocation
WHEN NEW.bytes > 0
BEGIN
    UPDATE charge SET live = 0 WHERE allocation = NEW.id;
END;

CREATE TRIGGER idle_ends AFTER UPDATE OF bytes ON allocation
WHEN NEW.bytes > 0 AND EXISTS (SELECT 1 FROM idle WHERE allocation = NEW.id)
BEGIN
    DELETE FROM idle WHERE allocation = NEW.id;
END;
