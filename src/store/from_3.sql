-- Version 3 to 4: which GPUs of a node are linked.  Not known until the node shows it again, at the first list.

ALTER TABLE gpu ADD COLUMN
    peers INTEGER NOT NULL DEFAULT 0;
