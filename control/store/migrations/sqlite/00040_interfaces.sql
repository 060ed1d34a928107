-- +goose Up
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

CREATE INDEX analyses_status ON analyses (status, created_at DESC, id DESC);
CREATE INDEX analyses_account ON analyses (account, created_at DESC, id DESC);

CREATE TABLE census (
    at        INTEGER PRIMARY KEY,
    waiting   INTEGER NOT NULL,
    active    INTEGER NOT NULL,
    delayed   INTEGER NOT NULL,
    oldest    INTEGER NOT NULL,
    paused    INTEGER NOT NULL,
    workers   INTEGER NOT NULL,
    desired   INTEGER NOT NULL DEFAULT -1,
    running   INTEGER NOT NULL DEFAULT -1
) WITHOUT ROWID;

-- +goose Down
DROP TABLE census;
DROP INDEX analyses_account;
DROP INDEX analyses_status;
ALTER TABLE events DROP COLUMN actor;
