-- +goose Up
CREATE TABLE runs (
    analysis_id  TEXT NOT NULL REFERENCES analyses (id) ON DELETE CASCADE,
    round        BIGINT NOT NULL,
    reason       TEXT NOT NULL,
    stage        BIGINT NOT NULL DEFAULT 0,
    way          TEXT NOT NULL DEFAULT '',
    retries      BIGINT NOT NULL DEFAULT 0,
    outcome      TEXT NOT NULL DEFAULT '',
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (analysis_id, round)
);
CREATE INDEX runs_open ON runs (updated_at, analysis_id, round) WHERE ended_at = 0;
CREATE INDEX runs_decided ON runs (analysis_id, round) WHERE ended_at = 0 AND outcome <> '';

CREATE INDEX outbox_analysis ON outbox (analysis_id);

-- +goose Down
DROP INDEX outbox_analysis;
DROP TABLE runs;
