-- Version 1 to 2.  Version 2 is released: this file never changes.

ALTER TABLE meta ADD COLUMN
    stepped_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE claim (
    gpu  TEXT PRIMARY KEY CHECK (gpu <> ''),
    node TEXT NOT NULL REFERENCES node (name) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_of ON claim (node, gpu);

ALTER TABLE allocation ADD COLUMN
    version        INTEGER NOT NULL DEFAULT 0 CHECK (version >= 0 AND (version = 0 OR origin = 'granted'));

DROP TRIGGER allocation_stays;

CREATE TRIGGER allocation_stays BEFORE UPDATE ON allocation
WHEN OLD.state = 'released' OR (NEW.state = 'reserved' AND OLD.state <> 'reserved')
  OR NEW.id <> OLD.id OR NEW.uid <> OLD.uid OR NEW.node <> OLD.node
  OR NEW.node_uid <> OLD.node_uid OR NEW.origin <> OLD.origin OR NEW.version < OLD.version
BEGIN
    SELECT RAISE(ABORT, 'an allocation goes forward only, and never moves');
END;
