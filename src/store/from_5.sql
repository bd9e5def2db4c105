-- Version 5 to 6: an id of the file, by which a log is known to belong to it, and whether it is a copy.

ALTER TABLE meta ADD COLUMN
    id         TEXT NOT NULL DEFAULT '' CHECK (length(id) IN (0, 32));

ALTER TABLE meta ADD COLUMN
    is_copy    INTEGER NOT NULL DEFAULT 0 CHECK (is_copy IN (0, 1));

UPDATE meta SET id = lower(hex(randomblob(16)));
