-- +goose Up
CREATE TABLE analyses (
    id               TEXT PRIMARY KEY,
    status           TEXT NOT NULL CHECK (status IN ('uploading', 'queued', 'processing', 'delivered', 'failed', 'cancelled')),
    params           BLOB NOT NULL,
    params_digest    TEXT NOT NULL,
    clips            BLOB NOT NULL,
    content_digest   TEXT NOT NULL,
    epoch            INTEGER NOT NULL DEFAULT 0,
    claim            TEXT NOT NULL DEFAULT '',
    worker_id        TEXT NOT NULL DEFAULT '',
    source           TEXT NOT NULL DEFAULT '',
    job_id           TEXT NOT NULL DEFAULT '',
    attempt          INTEGER NOT NULL DEFAULT 0,
    lease_until      INTEGER NOT NULL DEFAULT 0,
    result_id        TEXT NOT NULL DEFAULT '',
    result           BLOB,
    artifact_key     TEXT NOT NULL DEFAULT '',
    artifact_size    INTEGER NOT NULL DEFAULT 0,
    artifact_sha256  TEXT NOT NULL DEFAULT '',
    error_code       TEXT NOT NULL DEFAULT '',
    error_message    TEXT NOT NULL DEFAULT '',
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    settled_at       INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX analyses_newest ON analyses (created_at DESC, id DESC);
CREATE INDEX analyses_leases ON analyses (source, lease_until) WHERE status = 'processing';

CREATE TABLE executions (
    analysis_id  TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    epoch        INTEGER NOT NULL,
    claim        TEXT NOT NULL,
    worker_id    TEXT NOT NULL,
    source       TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    PRIMARY KEY (analysis_id, epoch)
) WITHOUT ROWID;

CREATE TABLE artifacts (
    analysis_id    TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    object_key     TEXT NOT NULL,
    epoch          INTEGER NOT NULL,
    name           TEXT NOT NULL,
    content_type   TEXT NOT NULL,
    size           INTEGER NOT NULL,
    sha256         TEXT NOT NULL,
    params_digest  TEXT NOT NULL,
    about          BLOB,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (analysis_id, object_key)
) WITHOUT ROWID;

CREATE TABLE webhook_ids (
    id           TEXT PRIMARY KEY,
    analysis_id  TEXT NOT NULL,
    digest       TEXT NOT NULL,
    decision     TEXT NOT NULL,
    seen_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_ids_seen ON webhook_ids (seen_at);

CREATE TABLE outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    analysis_id  TEXT NOT NULL,
    kind         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    tries        INTEGER NOT NULL DEFAULT 0,
    due_at       INTEGER NOT NULL,
    created_at   INTEGER NOT NULL
);
CREATE INDEX outbox_due ON outbox (due_at, id);

CREATE TABLE events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    analysis_id  TEXT NOT NULL,
    at           INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    worker_id    TEXT NOT NULL DEFAULT '',
    source       TEXT NOT NULL DEFAULT '',
    job_id       TEXT NOT NULL DEFAULT '',
    attempt      INTEGER NOT NULL DEFAULT 0,
    detail       TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_analysis ON events (analysis_id, id);

CREATE TABLE secrets (
    name   TEXT PRIMARY KEY,
    value  BLOB NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE secrets;
DROP TABLE events;
DROP TABLE outbox;
DROP TABLE webhook_ids;
DROP TABLE artifacts;
DROP TABLE executions;
DROP TABLE analyses;
