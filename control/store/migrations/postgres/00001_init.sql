-- +goose Up
CREATE TABLE analyses (
    id               TEXT PRIMARY KEY,
    status           TEXT NOT NULL CHECK (status IN ('uploading', 'queued', 'processing', 'delivered', 'failed', 'cancelled')),
    params           BYTEA NOT NULL,
    params_digest    TEXT NOT NULL,
    clips            BYTEA NOT NULL,
    content_digest   TEXT NOT NULL,
    epoch            BIGINT NOT NULL DEFAULT 0,
    claim            TEXT NOT NULL DEFAULT '',
    worker_id        TEXT NOT NULL DEFAULT '',
    source           TEXT NOT NULL DEFAULT '',
    job_id           TEXT NOT NULL DEFAULT '',
    attempt          BIGINT NOT NULL DEFAULT 0,
    lease_until      BIGINT NOT NULL DEFAULT 0,
    result_id        TEXT NOT NULL DEFAULT '',
    result           BYTEA,
    artifact_key     TEXT NOT NULL DEFAULT '',
    artifact_size    BIGINT NOT NULL DEFAULT 0,
    artifact_sha256  TEXT NOT NULL DEFAULT '',
    error_code       TEXT NOT NULL DEFAULT '',
    error_message    TEXT NOT NULL DEFAULT '',
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    settled_at       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX analyses_newest ON analyses (created_at DESC, id DESC);
CREATE INDEX analyses_leases ON analyses (source, lease_until) WHERE status = 'processing';

CREATE TABLE executions (
    analysis_id  TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    epoch        BIGINT NOT NULL,
    claim        TEXT NOT NULL,
    worker_id    TEXT NOT NULL,
    source       TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    attempt      BIGINT NOT NULL,
    started_at   BIGINT NOT NULL,
    PRIMARY KEY (analysis_id, epoch)
);

CREATE TABLE artifacts (
    analysis_id    TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    object_key     TEXT NOT NULL,
    epoch          BIGINT NOT NULL,
    name           TEXT NOT NULL,
    content_type   TEXT NOT NULL,
    size           BIGINT NOT NULL,
    sha256         TEXT NOT NULL,
    params_digest  TEXT NOT NULL,
    about          BYTEA,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (analysis_id, object_key)
);

CREATE TABLE webhook_ids (
    id           TEXT PRIMARY KEY,
    analysis_id  TEXT NOT NULL,
    digest       TEXT NOT NULL,
    decision     TEXT NOT NULL,
    seen_at      BIGINT NOT NULL
);
CREATE INDEX webhook_ids_seen ON webhook_ids (seen_at);

CREATE TABLE outbox (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    analysis_id  TEXT NOT NULL,
    kind         TEXT NOT NULL,
    reason       TEXT NOT NULL,
    tries        BIGINT NOT NULL DEFAULT 0,
    due_at       BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (due_at, id);

CREATE TABLE events (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    analysis_id  TEXT NOT NULL,
    at           BIGINT NOT NULL,
    kind         TEXT NOT NULL,
    epoch        BIGINT NOT NULL DEFAULT 0,
    worker_id    TEXT NOT NULL DEFAULT '',
    source       TEXT NOT NULL DEFAULT '',
    job_id       TEXT NOT NULL DEFAULT '',
    attempt      BIGINT NOT NULL DEFAULT 0,
    detail       TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_analysis ON events (analysis_id, id);

CREATE TABLE secrets (
    name   TEXT PRIMARY KEY,
    value  BYTEA NOT NULL
);

-- +goose Down
DROP TABLE secrets;
DROP TABLE events;
DROP TABLE outbox;
DROP TABLE webhook_ids;
DROP TABLE artifacts;
DROP TABLE executions;
DROP TABLE analyses;
