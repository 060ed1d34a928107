-- +goose Up
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

-- Ids are found by their beginning, in the order of bytes.
CREATE INDEX analyses_id_bytes ON analyses (id COLLATE "C");
CREATE INDEX analyses_status ON analyses (status, created_at DESC, id DESC);
-- analyses_status serves what it served.
DROP INDEX analyses_uploading;
CREATE INDEX analyses_account ON analyses (account, created_at DESC, id DESC);

CREATE TABLE census (
    at        BIGINT PRIMARY KEY,
    waiting   BIGINT NOT NULL,
    active    BIGINT NOT NULL,
    delayed   BIGINT NOT NULL,
    oldest    BIGINT NOT NULL,
    paused    BIGINT NOT NULL,
    workers   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE census;
CREATE INDEX analyses_uploading ON analyses (created_at) WHERE status = 'uploading';
DROP INDEX analyses_account;
DROP INDEX analyses_id_bytes;
DROP INDEX analyses_status;
ALTER TABLE events DROP COLUMN actor;
