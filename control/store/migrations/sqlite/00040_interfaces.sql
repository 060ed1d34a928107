-- +goose Up
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

CREATE INDEX analyses_status ON analyses (status, created_at DESC, id DESC);
-- analyses_status serves what it served.
DROP INDEX analyses_uploading;
CREATE INDEX analyses_account ON analyses (account, created_at DESC, id DESC);

CREATE TABLE census (
    at        INTEGER PRIMARY KEY,
    waiting   INTEGER NOT NULL,
    active    INTEGER NOT NULL,
    delayed   INTEGER NOT NULL,
    oldest    INTEGER NOT NULL,
    paused    INTEGER NOT NULL,
    workers   INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE census;
CREATE INDEX analyses_uploading ON analyses (created_at) WHERE status = 'uploading';
DROP INDEX analyses_account;
DROP INDEX analyses_status;
ALTER TABLE events DROP COLUMN actor;
