-- Version 4 to 5: what was measured of usage, and since when shares are idle.  Before, neither was kept. And an index
-- of the entries about memory.

CREATE TABLE measured (
    hour_ms    INTEGER NOT NULL CHECK (hour_ms >= 0 AND hour_ms % 3600000 = 0),
    namespace  TEXT NOT NULL,
    model      TEXT NOT NULL,
    milli_s    INTEGER NOT NULL CHECK (milli_s >= 0),
    of_milli_s INTEGER NOT NULL CHECK (of_milli_s >= 0),
    mib_s      INTEGER NOT NULL CHECK (mib_s >= 0),
    of_mib_s   INTEGER NOT NULL CHECK (of_mib_s >= 0),
    PRIMARY KEY (hour_ms, namespace, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE idle (
    allocation INTEGER NOT NULL,
    container  TEXT NOT NULL,
    gpu        TEXT NOT NULL,
    since_ms   INTEGER NOT NULL CHECK (since_ms > 0),
    PRIMARY KEY (allocation, container, gpu),
    FOREIGN KEY (allocation, container, gpu) REFERENCES share (allocation, container, gpu) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE reported (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    until_ms INTEGER NOT NULL CHECK (until_ms > 0)
) STRICT;

CREATE TRIGGER idle_ends AFTER UPDATE OF state ON allocation
WHEN NEW.state = 'released'
BEGIN
    DELETE FROM idle WHERE allocation = NEW.id;
END;

CREATE INDEX journal_over ON journal (seq) WHERE substr(command, 1, 14) = '{"kind":"over"';
