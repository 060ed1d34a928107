-- +goose Up
ALTER TABLE outbox ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN claimed_until INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_claims ON outbox (claimed_by) WHERE claimed_by <> '';
CREATE INDEX outbox_kind ON outbox (kind, due_at, id);

-- +goose Down
DROP INDEX outbox_kind;
DROP INDEX outbox_claims;
ALTER TABLE outbox DROP COLUMN claimed_until;
ALTER TABLE outbox DROP COLUMN claimed_by;
