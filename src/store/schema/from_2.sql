-- Version 2 to 3: what was learned of the workload.  The program learns it anew from the pods that it sees.

CREATE TABLE learned (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    pods     INTEGER NOT NULL CHECK (pods >= 0),
    until_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE class (
    place      INTEGER PRIMARY KEY CHECK (place >= 0),
    cpu_milli  INTEGER NOT NULL CHECK (cpu_milli BETWEEN 0 AND 4294967295),
    memory_mib INTEGER NOT NULL CHECK (memory_mib BETWEEN 0 AND 4294967295),
    parts      INTEGER NOT NULL CHECK (parts BETWEEN 1 AND 64),
    milli      INTEGER NOT NULL CHECK (milli BETWEEN 1 AND 1000),
    share_mib  INTEGER NOT NULL CHECK (share_mib BETWEEN 0 AND 4294967295),
    models     TEXT NOT NULL CHECK (substr(models, 1, 1) = '[' AND substr(models, -1) = ']'
                                    AND length(CAST(models AS BLOB)) <= 65536),
    weight     INTEGER NOT NULL CHECK (weight BETWEEN 1 AND 131072)
) STRICT;
