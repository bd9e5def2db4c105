-- The ledger of milligpu on disk, version 12.  application_id 0x6d475055 ("mGPU"), user_version 12.
--
--   meta                     one row: whose cluster this is, and which file
--   node, gpu, claim         the inventory as it is now; nothing of the past
--   allocation               one row per reservation or observed pod; released ones stay as history
--   share, charge            what its containers see; what it takes of each GPU
--   past                     how many rows of history each namespace has, and about how many bytes they take
--   pack                     older history, many allocations in one row, as far as history tells of them
--   journal, baseline        every change, oldest folded away: baseline + journal = the live rows
--   learned, class           how often each class of pods came: it orders placements, and says nothing of who
--                            holds what, so the journal does not tell of it and the replay does not need it
--   measured                 what agents measured in each hour; like learned, no part of who holds what
--   idle, reported           which shares have long been idle by their reports; likewise
--   policy                   the policy document that decides; likewise
--   agent                    what the agents of nodes did before a restart; likewise
--
-- A ledger file must have exactly these tables, indexes and triggers.  Whoever changes a statement here raises
-- the version and adds the step to it (from_<version>.sql, named in schema.c), and a ledger of the version
-- before goes to tests/released; comments and blanks may change freely.
-- No condition and no trigger of a bind has IN with three values, IN with two columns, or OR over two indexes
-- (docs/why/028), and a step from reserved to bound starts only the trigger allocation_forward (docs/why/031).
-- Times are milliseconds of UTC since 1970, as the wall clock said; 0: never.

CREATE TABLE meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    cluster    TEXT,                       -- uid of the namespace kube-system; NULL: not claimed yet
    created_ms INTEGER NOT NULL,
    folded     INTEGER NOT NULL CHECK (folded >= 0), -- journal entries up to here are in the baseline
    stepped_ms INTEGER NOT NULL DEFAULT 0, -- when the wall clock last stepped by more than a day
    id         TEXT NOT NULL DEFAULT '' CHECK (length(id) IN (0, 32)),     -- random; a copy gets another one
    is_copy    INTEGER NOT NULL DEFAULT 0 CHECK (is_copy IN (0, 1)),       -- made by backup, and not yet in use
    has_agents INTEGER NOT NULL DEFAULT 0 CHECK (has_agents IN (0, 1))     -- an agent was once seen in the cluster
) STRICT;

CREATE TABLE node (
    name         TEXT PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 253),
    uid          TEXT NOT NULL,
    source       TEXT NOT NULL,
    problem      TEXT NOT NULL,
    problem_text TEXT NOT NULL,
    gone         INTEGER NOT NULL CHECK (gone IN (0, 1)),
    since_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- flags: 1 absent, 2 unhealthy, 4 cordoned, 8 duplicate.  peers: bit i says that NVLink joins it with GPU i of the
-- node, counted in the order of (absent, idx, id).
CREATE TABLE gpu (
    node  TEXT NOT NULL REFERENCES node (name) ON DELETE CASCADE,
    id    TEXT NOT NULL CHECK (id <> ''),
    alias TEXT CHECK (alias <> '' AND alias <> id),
    model TEXT NOT NULL,
    milli INTEGER NOT NULL CHECK (milli BETWEEN 1 AND 1000),
    mib   INTEGER NOT NULL CHECK (mib BETWEEN 0 AND 4294967295),
    idx   INTEGER NOT NULL CHECK (idx BETWEEN 0 AND 65535),
    numa  INTEGER NOT NULL CHECK (numa BETWEEN -32768 AND 32767),
    flags INTEGER NOT NULL CHECK (flags BETWEEN 0 AND 15),
    peers INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (node, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX gpu_id ON gpu (id);
CREATE INDEX gpu_alias ON gpu (alias) WHERE alias IS NOT NULL;

-- What this Node (its uid) was the first to show, and does not show now: nobody else's while it is there.
CREATE TABLE claim (
    gpu  TEXT PRIMARY KEY CHECK (gpu <> ''),
    node TEXT NOT NULL REFERENCES node (name) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_of ON claim (node, gpu);

CREATE TABLE allocation (
    id             INTEGER PRIMARY KEY,
    uid            TEXT NOT NULL CHECK (length(CAST(uid AS BLOB)) BETWEEN 1 AND 128),
    namespace      TEXT NOT NULL,
    name           TEXT NOT NULL,
    node           TEXT NOT NULL,
    node_uid       TEXT NOT NULL,          -- names come again, uids do not
    state          TEXT NOT NULL CHECK (state = 'reserved' OR state = 'bound' OR state = 'released'),
    origin         TEXT NOT NULL CHECK (origin IN ('granted', 'observed')),
    presumed       INTEGER NOT NULL CHECK (presumed IN (0, 1)),
    in_doubt       INTEGER NOT NULL CHECK (in_doubt IN (0, 1)),
    note_differs   INTEGER NOT NULL CHECK (note_differs IN (0, 1)),
    held_gpus      INTEGER NOT NULL CHECK (held_gpus BETWEEN 0 AND 4294967295),
    unplaced_milli INTEGER NOT NULL CHECK (unplaced_milli BETWEEN 0 AND 4294967295),
    reserved_ms    INTEGER NOT NULL,
    bound_ms       INTEGER NOT NULL,
    released_ms    INTEGER NOT NULL,
    terminating_ms INTEGER NOT NULL,
    -- The highest resourceVersion that a Binding of it was ever sent with; 0: not known.
    version        INTEGER NOT NULL DEFAULT 0 CHECK (version >= 0 AND (version = 0 OR origin = 'granted')),
    -- The bytes of its rows here, in share and in charge, indexes included, as counted in past; 0 while it lives.
    bytes          INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    is_other       INTEGER NOT NULL DEFAULT 0 CHECK (is_other IN (0, 1)), -- counted in the row '' of past
    past_of        TEXT GENERATED ALWAYS AS (CASE is_other WHEN 0 THEN namespace ELSE '' END) VIRTUAL,
    -- It lives while bytes is 0: a step from reserved to bound does not set that column, so it writes no page of the
    -- indexes of live rows.
    lives_on       TEXT GENERATED ALWAYS AS (CASE bytes WHEN 0 THEN node END) VIRTUAL
                   CHECK ((lives_on IS NULL) = (state = 'released')),
    -- The node must be there for as long as the allocation lives, and no longer.  A charge keeps it by its GPU (gpu_kept).
    -- This keeps it for a live allocation that may have no charge: hardly a bind writes its index.
    needs_node     TEXT GENERATED ALWAYS AS (CASE WHEN bytes = 0 AND (origin = 'observed' OR held_gpus > 0) THEN node END)
                   VIRTUAL REFERENCES node (name),
    CHECK (origin = 'granted' OR state <> 'reserved'),
    CHECK (origin = 'observed' OR unplaced_milli = 0),
    CHECK (in_doubt = 0 OR state = 'reserved')
) STRICT;

CREATE UNIQUE INDEX allocation_live ON allocation (uid) WHERE bytes = 0;
CREATE INDEX allocation_needs ON allocation (needs_node) WHERE needs_node IS NOT NULL;
CREATE INDEX allocation_pod ON allocation (namespace, name, id);
CREATE INDEX allocation_past ON allocation (released_ms) WHERE bytes > 0;
CREATE INDEX allocation_past_of ON allocation (past_of, released_ms) WHERE bytes > 0;

-- Released allocations by namespace: the namespace with most bytes loses its oldest first when the ledger reaches its
-- limit.  namespace '': of those that came when 4,096 others had a row.
CREATE TABLE past (
    namespace TEXT PRIMARY KEY,
    n_rows    INTEGER NOT NULL CHECK (n_rows >= 0),
    bytes     INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

-- Rows of history are packed when the ledger comes near its limit, the oldest first; their containers are not kept.
-- body: src/store/past/pack.h has the format, and the table unpack reads it.  An id is of one allocation, here or there.
CREATE TABLE pack (
    id        INTEGER PRIMARY KEY,
    past_of   TEXT NOT NULL,                         -- as in allocation: the namespace of all, or ''
    n_rows    INTEGER NOT NULL CHECK (n_rows > 0),   -- allocations
    first     INTEGER NOT NULL CHECK (first > 0),    -- the lowest id of an allocation
    last      INTEGER NOT NULL CHECK (last >= first),
    began_ms  INTEGER NOT NULL,                      -- when the earliest of them began
    oldest_ms INTEGER NOT NULL,                      -- when the first of them was released
    ended_ms  INTEGER NOT NULL CHECK (ended_ms >= oldest_ms), -- when the last of them was released
    bytes     INTEGER NOT NULL CHECK (bytes > 0),    -- of this row, about
    body      BLOB NOT NULL
) STRICT;

CREATE INDEX pack_last ON pack (last);
CREATE INDEX pack_ended ON pack (ended_ms);
CREATE INDEX pack_of ON pack (past_of, ended_ms, bytes);

CREATE TABLE share (
    allocation INTEGER NOT NULL REFERENCES allocation (id) ON DELETE CASCADE,
    container  TEXT NOT NULL CHECK (container <> ''),
    gpu        TEXT NOT NULL CHECK (gpu <> ''),
    at         INTEGER NOT NULL CHECK (at BETWEEN 0 AND 511),     -- position within the allocation
    kind       TEXT NOT NULL CHECK (kind = 'app' OR kind = 'init' OR kind = 'sidecar'),
    life       INTEGER NOT NULL CHECK (life BETWEEN 0 AND 65535), -- order within the life of the pod
    milli      INTEGER NOT NULL CHECK (milli BETWEEN 1 AND 1000),
    mib        INTEGER NOT NULL CHECK (mib BETWEEN 0 AND 4294967295),
    asked      INTEGER CHECK (asked BETWEEN 1 AND milli),         -- by the pod; NULL: milli
    PRIMARY KEY (allocation, container, gpu)
) STRICT, WITHOUT ROWID;

-- The peak over the pod's life.  node and live repeat the allocation's, for the sums of one GPU.
-- gpu is the name by which the GPU was known then: its id or its alias.
CREATE TABLE charge (
    allocation INTEGER NOT NULL REFERENCES allocation (id) ON DELETE CASCADE,
    gpu        TEXT NOT NULL CHECK (gpu <> ''),
    at         INTEGER NOT NULL CHECK (at BETWEEN 0 AND 511),
    node       TEXT NOT NULL,
    milli      INTEGER NOT NULL CHECK (milli BETWEEN 1 AND 4294967295),
    mib        INTEGER NOT NULL CHECK (mib BETWEEN 0 AND 4294967295),
    live       INTEGER NOT NULL CHECK (live IN (0, 1)),
    PRIMARY KEY (allocation, gpu)
) STRICT, WITHOUT ROWID;

-- SQLite 3.40 takes the condition for a column that it must read, too, so the index has it.
CREATE INDEX charge_live ON charge (node, gpu, milli, mib, live) WHERE live = 1;
CREATE INDEX charge_gpu ON charge (gpu, allocation) WHERE live = 0; -- live ones are found by charge_live

CREATE TABLE journal (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    command TEXT NOT NULL, -- JSON: what was asked
    result  TEXT NOT NULL  -- JSON: what changed, as it was afterwards: the allocation (of one that was there before,
                           -- only what its steps change, with its names), the node
) STRICT;

-- few of many: over_events.c finds them by it. kind is always the first member (state_command())
CREATE INDEX journal_over ON journal (seq) WHERE substr(command, 1, 14) = '{"kind":"over"';

CREATE TABLE baseline (
    key   TEXT PRIMARY KEY, -- allocation/<uid>, node/<name>
    seq   INTEGER NOT NULL,
    state TEXT NOT NULL     -- as in journal.result, but whole
) STRICT, WITHOUT ROWID;

-- The workload as it was last stored (tally.h), replaced as a whole.  No row: nothing is stored.
CREATE TABLE learned (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    pods     INTEGER NOT NULL CHECK (pods >= 0), -- counted ever
    until_ms INTEGER NOT NULL                    -- pods that came after this time are not counted in it
) STRICT;

-- In the order in which they came, from place 0 on without a gap.
CREATE TABLE class (
    place      INTEGER PRIMARY KEY CHECK (place >= 0),
    cpu_milli  INTEGER NOT NULL CHECK (cpu_milli BETWEEN 0 AND 4294967295),
    memory_mib INTEGER NOT NULL CHECK (memory_mib BETWEEN 0 AND 4294967295),
    parts      INTEGER NOT NULL CHECK (parts BETWEEN 1 AND 64), -- GPUs
    milli      INTEGER NOT NULL CHECK (milli BETWEEN 1 AND 1000), -- of each
    share_mib  INTEGER NOT NULL CHECK (share_mib BETWEEN 0 AND 4294967295),
    -- A JSON array of texts.  Empty: any model.  json_valid() is unsafe here where the schema is not trusted (db.c).
    models     TEXT NOT NULL CHECK (substr(models, 1, 1) = '[' AND substr(models, -1) = ']'
                                    AND length(CAST(models AS BLOB)) <= 65536),
    weight     INTEGER NOT NULL CHECK (weight BETWEEN 1 AND 131072)
) STRICT;

-- Sums of one hour, which begins at hour_ms.  milli_s: thousandths of a GPU times seconds that were measured;
-- of_milli_s: what was granted of it in the same seconds.  mib_s and of_mib_s: the same of memory.  A grant of which
-- nobody measured anything is in neither.  namespace and model '': of those for which the hour had no row left.
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

-- Since when a share of a live allocation is idle, if that is an hour or more; it goes when the share works again, and
-- with its allocation.
CREATE TABLE idle (
    allocation INTEGER NOT NULL,
    container  TEXT NOT NULL,
    gpu        TEXT NOT NULL,
    since_ms   INTEGER NOT NULL CHECK (since_ms > 0),
    PRIMARY KEY (allocation, container, gpu),
    FOREIGN KEY (allocation, container, gpu) REFERENCES share (allocation, container, gpu) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- When the last report was taken that the table idle knows of.  No row: none was.
CREATE TABLE reported (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    until_ms INTEGER NOT NULL CHECK (until_ms > 0)
) STRICT;

-- The policy document that decides, or decided last, as its file was: it goes on deciding after a start at which
-- milligpud cannot read the file.  No row: what decides is no document of a file.
CREATE TABLE policy (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    name     TEXT NOT NULL CHECK (name <> ''),   -- path of the file
    document BLOB NOT NULL CHECK (length(document) BETWEEN 1 AND 1048576),
    read_ms  INTEGER NOT NULL
) STRICT;

-- What is remembered of the agent of each node (agents.h).  The row goes when the Node is deleted or replaced, and when
-- the agent is uninstalled.  No foreign key: a Node that shows no GPUs for a while has no row in node.
CREATE TABLE agent (
    node       TEXT PRIMARY KEY CHECK (length(CAST(node AS BLOB)) BETWEEN 1 AND 253),
    uid        TEXT NOT NULL,                                 -- of the Node object
    named_gpus INTEGER NOT NULL CHECK (named_gpus IN (0, 1)), -- it named the GPUs by UUIDs
    vouched    INTEGER NOT NULL CHECK (vouched IN (0, 1)),    -- its pod vouched for the node
    CHECK (named_gpus = 1 OR vouched = 1)
) STRICT, WITHOUT ROWID;

-- I1: a grant takes no GPU over its milli or its MiB, whatever name its holders know it by, and none
-- that is closed.  What the cluster imposes (observed) may, and then nothing more is granted there.
-- WHEN has what nearly every charge fulfils: it is on the node of its allocation, under the id of an open GPU that no
-- charge has by its alias, and all charges fit.  Of any other charge, the sentences below say what is wrong, if anything is.
CREATE TRIGGER charge_within AFTER INSERT ON charge
WHEN NEW.live = 1 AND NOT EXISTS (
    SELECT 1 FROM gpu AS g CROSS JOIN allocation AS a
    WHERE g.node = NEW.node AND g.id = NEW.gpu AND g.flags = 0
    AND a.id = NEW.allocation AND a.lives_on = NEW.node
    AND (SELECT sum(c.milli) <= g.milli AND (g.mib = 0 OR sum(c.mib) <= g.mib) FROM charge AS c
         WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = NEW.gpu)
    AND NOT EXISTS (SELECT 1 FROM charge AS c WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.alias))
BEGIN
    SELECT RAISE(ABORT, 'a charge on another node than its allocation')
    WHERE NEW.node IS NOT (SELECT lives_on FROM allocation WHERE id = NEW.allocation);
    SELECT RAISE(ABORT, 'a charge of a GPU that the node does not have')
    WHERE NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND id = NEW.gpu)
      AND NOT EXISTS (SELECT 1 FROM gpu WHERE node = NEW.node AND alias = NEW.gpu);
    SELECT RAISE(ABORT, 'a grant beyond the GPU')
    WHERE (SELECT origin FROM allocation WHERE id = NEW.allocation) = 'granted' AND NOT EXISTS (
        SELECT 1 FROM gpu AS g
        WHERE g.node = NEW.node AND g.flags = 0
        AND g.id = coalesce((SELECT id FROM gpu WHERE node = NEW.node AND id = NEW.gpu),
                            (SELECT id FROM gpu WHERE node = NEW.node AND alias = NEW.gpu))
        AND (SELECT sum(milli) <= g.milli AND (g.mib = 0 OR sum(mib) <= g.mib) FROM (
             SELECT c.milli, c.mib FROM charge AS c
             WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.id
             UNION ALL SELECT c.milli, c.mib FROM charge AS c
             WHERE c.live = 1 AND c.node = NEW.node AND c.gpu = g.alias)));
END;

CREATE TRIGGER charge_stays AFTER UPDATE OF allocation, gpu, at, node, milli, mib ON charge
BEGIN
    SELECT RAISE(ABORT, 'a charge never changes');
END;

CREATE TRIGGER charge_ends AFTER UPDATE OF live ON charge
WHEN NEW.live > OLD.live
BEGIN
    SELECT RAISE(ABORT, 'a charge never lives again');
END;

CREATE TRIGGER charge_kept BEFORE DELETE ON charge
WHEN EXISTS (SELECT 1 FROM allocation WHERE id = OLD.allocation)
BEGIN
    SELECT RAISE(ABORT, 'a charge goes with its allocation only');
END;

CREATE TRIGGER share_stays BEFORE UPDATE ON share
BEGIN
    SELECT RAISE(ABORT, 'a share never changes');
END;

CREATE TRIGGER share_kept BEFORE DELETE ON share
WHEN EXISTS (SELECT 1 FROM allocation WHERE id = OLD.allocation)
BEGIN
    SELECT RAISE(ABORT, 'a share goes with its allocation only');
END;

CREATE TRIGGER allocation_stays AFTER UPDATE OF uid, node, node_uid, origin, held_gpus ON allocation
BEGIN
    SELECT RAISE(ABORT, 'an allocation never moves');
END;

-- An id has other names (rowid), by which no column list finds it.
CREATE TRIGGER allocation_forward AFTER UPDATE ON allocation
WHEN OLD.state = 'released' OR (NEW.state = 'reserved' AND OLD.state <> 'reserved') OR NEW.version < OLD.version
  OR NEW.id <> OLD.id
BEGIN
    SELECT RAISE(ABORT, 'an allocation goes forward only');
END;

-- Only a release sets bytes.
CREATE TRIGGER allocation_lets_go AFTER UPDATE OF bytes ON allocation
WHEN NEW.bytes > 0
BEGIN
    UPDATE charge SET live = 0 WHERE allocation = NEW.id;
END;

CREATE TRIGGER idle_ends AFTER UPDATE OF bytes ON allocation
WHEN NEW.bytes > 0 AND EXISTS (SELECT 1 FROM idle WHERE allocation = NEW.id)
BEGIN
    DELETE FROM idle WHERE allocation = NEW.id;
END;

CREATE TRIGGER allocation_kept BEFORE DELETE ON allocation
WHEN OLD.state <> 'released'
BEGIN
    SELECT RAISE(ABORT, 'a live allocation is never deleted');
END;

CREATE TRIGGER past_goes AFTER DELETE ON allocation
BEGIN
    UPDATE past SET n_rows = n_rows - 1, bytes = bytes - OLD.bytes WHERE namespace = OLD.past_of;
    DELETE FROM past WHERE namespace = OLD.past_of AND n_rows = 0;
END;

CREATE TRIGGER pack_stays BEFORE UPDATE ON pack
BEGIN
    SELECT RAISE(ABORT, 'a pack never changes');
END;

CREATE TRIGGER gpu_kept AFTER DELETE ON gpu
BEGIN
    SELECT RAISE(ABORT, 'a charged GPU is never deleted') FROM charge AS c
    WHERE c.live = 1 AND c.node = OLD.node AND c.gpu IN (OLD.id, OLD.alias) AND NOT EXISTS (
        SELECT 1 FROM gpu AS g WHERE g.node = OLD.node AND (g.id = c.gpu OR g.alias = c.gpu));
END;

CREATE TRIGGER journal_stays BEFORE UPDATE ON journal
BEGIN
    SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_kept BEFORE DELETE ON journal
WHEN OLD.seq > (SELECT folded FROM meta)
BEGIN
    SELECT RAISE(ABORT, 'a journal entry is folded before it goes');
END;
