-- Version 10 to 11: a bind writes one index less.  A charge keeps the node of its allocation by its GPU, so only allocations
-- that may have no charge need a reference to the node, with its index.

DROP TRIGGER charge_named;
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
