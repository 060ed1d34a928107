-- +goose Up
CREATE TABLE fleet (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    owner        TEXT NOT NULL DEFAULT '',
    epoch        BIGINT NOT NULL DEFAULT 0,
    lease_until  BIGINT NOT NULL DEFAULT 0,
    desired      BIGINT NOT NULL DEFAULT 0,
    reason       TEXT NOT NULL DEFAULT '',
    changed_at   BIGINT NOT NULL DEFAULT 0,
    needed_at    BIGINT NOT NULL DEFAULT 0,
    wake_until   BIGINT NOT NULL DEFAULT 0,
    running      BIGINT NOT NULL DEFAULT 0,
    ready        BIGINT NOT NULL DEFAULT 0,
    seen_at      BIGINT NOT NULL DEFAULT 0
);
INSERT INTO fleet (id) VALUES (1);

CREATE TABLE fleet_history (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       BIGINT NOT NULL,
    desired  BIGINT NOT NULL,
    running  BIGINT NOT NULL,
    ready    BIGINT NOT NULL,
    waiting  BIGINT NOT NULL,
    working  BIGINT NOT NULL,
    reason   TEXT NOT NULL DEFAULT ''
);
CREATE INDEX fleet_history_at ON fleet_history (at);
CREATE INDEX analyses_queued ON analyses (status) WHERE status = 'queued';

-- +goose Down
DROP INDEX analyses_queued;
DROP TABLE fleet_history;
DROP TABLE fleet;
