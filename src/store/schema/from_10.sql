-- Version 10 to 11: a bind writes one index less.  A charge keeps the node of its allocation by its GPU, so only allocations
-- that may have no charge need a reference to the node, with its index.

DROP TRIGGER charge_named;
DROP TRIGGER allocation_stays;
DROP INDEX allocation_on;

ALTER TABLE allocation DROP COLUMN lives_on;

ALTER TABLE allocation ADD COLUMN
    lives_on       TEXT GENERATED ALWAYS AS (CASE bytes WHEN 0 THEN node END) VIRTUAL
                   CHECK ((lives_on IS NULL) = (state = 'released'));

ALTER TABLE allocation ADD COLUMN
    needs_node     TEXT GENERATED ALWAYS AS (CASE WHEN bytes = 0 AND (origin = 'observed' OR held_gpus > 0) THEN node END)
                   VIRTUAL REFERENCES node (name);

CREATE INDEX allocation_needs ON allocation (needs_node) WHERE needs_node IS NOT NULL;

CREATE TRIGGER charge_named AFTER INSERT ON charge
WHEN NEW.live = 1
BEGIN
    SELECT RAISE(ABORT, 'a charge on another node than its allocation')
    WHERE NEW.node IS NOT (SELECT lives_on FROM allocation WHERE id = NEW.allocation);
    SELECT RAISE(ABORT, 'a charge of a GPU that the node does not have')
    WHERE NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND id = NEW.gpu)
      AND NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND alias = NEW.gpu);
END;

CREATE TRIGGER allocation_stays BEFORE UPDATE ON allocation
WHEN OLD.state = 'released' OR (NEW.state = 'reserved' AND OLD.state <> 'reserved')
  OR NEW.id <> OLD.id OR NEW.uid <> OLD.uid OR NEW.node <> OLD.node
  OR NEW.node_uid <> OLD.node_uid OR NEW.origin <> OLD.origin OR NEW.version < OLD.version
  OR NEW.held_gpus <> OLD.held_gpus
BEGIN
    SELECT RAISE(ABORT, 'an allocation goes forward only, and never moves');
END;
