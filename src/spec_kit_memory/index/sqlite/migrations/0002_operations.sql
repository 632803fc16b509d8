-- What an entry of the ledger did is data, and history says which entry it was written with.
-- Entries that are there already stay as they are, at version 1: their hashes are of their old fields.
-- The numbers of the history rows that are there already are filled in by schema.py.

ALTER TABLE ledger ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ledger ADD COLUMN operation TEXT;      -- JSON object, as in core/operation.py
ALTER TABLE ledger ADD COLUMN operation_id TEXT;   -- the id in it, to find its entries by
ALTER TABLE ledger ADD COLUMN history TEXT;        -- digest of the history rows of this entry
ALTER TABLE ledger ADD COLUMN presence TEXT;       -- of the first memory, after the change
CREATE INDEX ledger_operation ON ledger (operation_id) WHERE operation_id IS NOT NULL;

ALTER TABLE history ADD COLUMN ledger_sequence INTEGER;
CREATE INDEX history_ledger ON history (ledger_sequence);
