-- +goose Up
CREATE TABLE ledger (
    entry_key   TEXT PRIMARY KEY,
    digest      BLOB NOT NULL,
    outcome     TEXT NOT NULL,
    at          INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ledger_expiry ON ledger (expires_at);

CREATE TABLE accounts (
    id          TEXT PRIMARY KEY,
    credits     INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE credits (
    analysis_id  TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    round        INTEGER NOT NULL,
    account      TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'refunded')),
    reserved_at  INTEGER NOT NULL,
    closed_at    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (analysis_id, round)
) WITHOUT ROWID;

CREATE INDEX credits_account ON credits (account, state);

ALTER TABLE outbox ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
ALTER TABLE analyses ADD COLUMN account TEXT NOT NULL DEFAULT 'default';
ALTER TABLE analyses ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
CREATE INDEX analyses_uploading ON analyses (created_at) WHERE status = 'uploading';

-- +goose Down
DROP INDEX analyses_uploading;
ALTER TABLE analyses DROP COLUMN round;
ALTER TABLE analyses DROP COLUMN account;
ALTER TABLE outbox DROP COLUMN round;
DROP TABLE credits;
DROP TABLE accounts;
DROP TABLE ledger;
