-- Version 3 to 4: which GPUs of a node are linked.  Not known until the node shows it again, at the first list.
-- And what a pod asked for where its share was raised.  Nothing was raised before.

ALTER TABLE gpu ADD COLUMN
    peers INTEGER NOT NULL DEFAULT 0;

ALTER TABLE share ADD COLUMN
    asked INTEGER CHECK (asked BETWEEN 1 AND milli);
