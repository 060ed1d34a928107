-- +goose Up
CREATE INDEX outbox_fresh ON outbox (kind, due_at, id) WHERE tries = 0;
-- outbox_kind serves what it served.
DROP INDEX outbox_due;

-- +goose Down
CREATE INDEX outbox_due ON outbox (due_at, id);
DROP INDEX outbox_fresh;
