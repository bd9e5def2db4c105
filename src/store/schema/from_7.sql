-- Version 7 to 8: what is remembered of the agents of nodes.  Before, nothing was: agents that run are seen at the first
-- list.

ALTER TABLE meta ADD COLUMN
    has_agents INTEGER NOT NULL DEFAULT 0 CHECK (has_agents IN (0, 1));

CREATE TABLE agent (
    node       TEXT PRIMARY KEY CHECK (length(CAST(node AS BLOB)) BETWEEN 1 AND 253),
    uid        TEXT NOT NULL,
    named_gpus INTEGER NOT NULL CHECK (named_gpus IN (0, 1)),
    vouched    INTEGER NOT NULL CHECK (vouched IN (0, 1)),
    CHECK (named_gpus = 1 OR vouched = 1)
) STRICT, WITHOUT ROWID;
