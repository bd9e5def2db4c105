-- Version 4 to 5: what was measured of usage.  Before, it was not kept.

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
