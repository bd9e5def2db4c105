-- Version 6 to 7: how many bytes the history of each namespace takes, and packs of older history.  What is history already
-- is counted by the sizes of its texts, as write.c counts what comes; nothing is packed yet.

ALTER TABLE allocation ADD COLUMN
    bytes          INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0);

ALTER TABLE allocation ADD COLUMN
    is_other       INTEGER NOT NULL DEFAULT 0 CHECK (is_other IN (0, 1));

ALTER TABLE allocation ADD COLUMN
    past_of        TEXT GENERATED ALWAYS AS (CASE is_other WHEN 0 THEN namespace ELSE '' END) VIRTUAL;

DROP TRIGGER allocation_stays;

UPDATE allocation SET
    bytes = 120 + length(CAST(uid AS BLOB)) + 3 * length(CAST(namespace AS BLOB)) + 2 * length(CAST(name AS BLOB))
          + length(CAST(node AS BLOB)) + length(CAST(node_uid AS BLOB))
          + coalesce((SELECT sum(30 + length(CAST(container AS BLOB)) + length(CAST(gpu AS BLOB)))
                      FROM share AS s WHERE s.allocation = allocation.id), 0)
          + coalesce((SELECT sum(45 + 2 * length(CAST(gpu AS BLOB)) + length(CAST(c.node AS BLOB)))
                      FROM charge AS c WHERE c.allocation = allocation.id), 0),
    is_other = namespace NOT IN (SELECT DISTINCT namespace FROM allocation WHERE state = 'released'
                                 ORDER BY namespace LIMIT 4096)
WHERE state = 'released';

CREATE TRIGGER allocation_stays BEFORE UPDATE ON allocation
WHEN OLD.state = 'released' OR (NEW.state = 'reserved' AND OLD.state <> 'reserved')
  OR NEW.id <> OLD.id OR NEW.uid <> OLD.uid OR NEW.node <> OLD.node
  OR NEW.node_uid <> OLD.node_uid OR NEW.origin <> OLD.origin OR NEW.version < OLD.version
BEGIN
    SELECT RAISE(ABORT, 'an allocation goes forward only, and never moves');
END;

CREATE INDEX allocation_past_of ON allocation (past_of, released_ms) WHERE state = 'released';

CREATE TABLE past (
    namespace TEXT PRIMARY KEY,
    n_rows    INTEGER NOT NULL CHECK (n_rows >= 0),
    bytes     INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO past (namespace, n_rows, bytes)
SELECT past_of, count(*), sum(bytes) FROM allocation WHERE state = 'released' GROUP BY past_of;

CREATE TRIGGER past_goes AFTER DELETE ON allocation
BEGIN
    UPDATE past SET n_rows = n_rows - 1, bytes = bytes - OLD.bytes WHERE namespace = OLD.past_of;
    DELETE FROM past WHERE namespace = OLD.past_of AND n_rows = 0;
END;

CREATE TABLE pack (
    id        INTEGER PRIMARY KEY,
    past_of   TEXT NOT NULL,
    n_rows    INTEGER NOT NULL CHECK (n_rows > 0),
    first     INTEGER NOT NULL CHECK (first > 0),
    last      INTEGER NOT NULL CHECK (last >= first),
    began_ms  INTEGER NOT NULL,
    oldest_ms INTEGER NOT NULL,
    ended_ms  INTEGER NOT NULL CHECK (ended_ms >= oldest_ms),
    bytes     INTEGER NOT NULL CHECK (bytes > 0),
    body      BLOB NOT NULL
) STRICT;

CREATE INDEX pack_last ON pack (last);
CREATE INDEX pack_ended ON pack (ended_ms);
CREATE INDEX pack_of ON pack (past_of, ended_ms, bytes);

CREATE TRIGGER pack_stays BEFORE UPDATE ON pack
BEGIN
    SELECT RAISE(ABORT, 'a pack never changes');
END;
