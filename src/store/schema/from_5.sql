-- Version 5 to 6: an id of the file, by which a log is known to belong to it, and whether it is a copy; the policy
-- document that decides, which the program stores when it has read it.

ALTER TABLE meta ADD COLUMN
    id         TEXT NOT NULL DEFAULT '' CHECK (length(id) IN (0, 32));

ALTER TABLE meta ADD COLUMN
    is_copy    INTEGER NOT NULL DEFAULT 0 CHECK (is_copy IN (0, 1));

UPDATE meta SET id = lower(hex(randomblob(16)));

CREATE TABLE policy (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    name     TEXT NOT NULL CHECK (name <> ''),
    document BLOB NOT NULL CHECK (length(document) BETWEEN 1 AND 1048576),
    read_ms  INTEGER NOT NULL
) STRICT;
