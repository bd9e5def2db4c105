-- Version 8 to 9: a bind writes fewer pages.  That an allocation lives is said by its column bytes, which a step from
-- reserved to bound does not set, and history of a GPU is indexed when it is history.

DROP TRIGGER charge_named;
DROP INDEX allocation_on;
DROP INDEX allocation_live;
DROP INDEX charge_gpu;

ALTER TABLE allocation DROP COLUMN lives_on;

ALTER TABLE allocation ADD COLUMN
    lives_on       TEXT GENERATED ALWAYS AS (CASE bytes WHEN 0 THEN node END) VIRTUAL REFERENCES node (name)
                   CHECK ((lives_on IS NULL) = (state = 'released'));

CREATE UNIQUE INDEX allocation_live ON allocation (uid) WHERE bytes = 0;
CREATE INDEX allocation_on ON allocation (lives_on) WHERE lives_on IS NOT NULL;
CREATE INDEX charge_gpu ON charge (gpu, allocation) WHERE live = 0;

CREATE TRIGGER charge_named AFTER INSERT ON charge
WHEN NEW.live = 1
BEGIN
    SELECT RAISE(ABORT, 'a charge on another node than its allocation')
    WHERE NEW.node IS NOT (SELECT lives_on FROM allocation WHERE id = NEW.allocation);
    SELECT RAISE(ABORT, 'a charge of a GPU that the node does not have') WHERE NOT EXISTS (
        SELECT 1 FROM gpu AS g WHERE g.node = NEW.node AND (g.id = NEW.gpu OR g.alias = NEW.gpu));
END;
