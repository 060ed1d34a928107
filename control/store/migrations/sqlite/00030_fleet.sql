-- +goose Up
CREATE TABLE fleet (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    owner        TEXT NOT NULL DEFAULT '',
    epoch        INTEGER NOT NULL DEFAULT 0,
    lease_until  INTEGER NOT NULL DEFAULT 0,
    desired      INTEGER NOT NULL DEFAULT 0,
    reason       TEXT NOT NULL DEFAULT '',
    changed_at   INTEGER NOT NULL DEFAULT 0,
    needed_at    INTEGER NOT NULL DEFAULT 0,
    wake_until   INTEGER NOT NULL DEFAULT 0,
    running      INTEGER NOT NULL DEFAULT 0,
    ready        INTEGER NOT NULL DEFAULT 0,
    seen_at      INTEGER NOT NULL DEFAULT 0
);
INSERT INTO fleet (id) VALUES (1);

CREATE TABLE fleet_history (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    desired  INTEGER NOT NULL,
    running  INTEGER NOT NULL,
    ready    INTEGER NOT NULL,
    waiting  INTEGER NOT NULL,
    working  INTEGER NOT NULL,
    reason   TEXT NOT NULL DEFAULT ''
);
CREATE INDEX fleet_history_at ON fleet_history (at);
CREATE INDEX analyses_queued ON analyses (status) WHERE status = 'queued';

-- +goose Down
DROP INDEX analyses_queued;
DROP TABLE fleet_history;
DROP TABLE fleet;
