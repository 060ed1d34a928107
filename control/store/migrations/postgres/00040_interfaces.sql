-- +goose Up
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

-- Ids are found by their beginning, in the order of bytes.
CREATE INDEX analyses_id_bytes ON analyses (id COLLATE "C");
CREATE INDEX analyses_status ON analyses (status, created_at DESC, id DESC);
CREATE INDEX analyses_account ON analyses (account, created_at DESC, id DESC);

CREATE TABLE census (
    at        BIGINT PRIMARY KEY,
    waiting   BIGINT NOT NULL,
    active    BIGINT NOT NULL,
    delayed   BIGINT NOT NULL,
    oldest    BIGINT NOT NULL,
    paused    BIGINT NOT NULL,
    workers   BIGINT NOT NULL,
    desired   BIGINT NOT NULL DEFAULT -1,
    running   BIGINT NOT NULL DEFAULT -1
);

-- +goose Down
DROP TABLE census;
DROP INDEX analyses_account;
DROP INDEX analyses_id_bytes;
DROP INDEX analyses_status;
ALTER TABLE events DROP COLUMN actor;
