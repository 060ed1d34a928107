-- +goose Up
ALTER TABLE runs ADD COLUMN decided_at BIGINT NOT NULL DEFAULT 0;
DROP INDEX runs_decided;
CREATE INDEX runs_decided ON runs (decided_at, analysis_id, round) WHERE ended_at = 0 AND outcome <> '';

ALTER TABLE analyses ADD COLUMN job_added BIGINT NOT NULL DEFAULT 0;
ALTER TABLE analyses ADD COLUMN job_taken BIGINT NOT NULL DEFAULT 0;

-- How many credits a reservation took: none where the account had no limit then.
ALTER TABLE credits ADD COLUMN taken BIGINT NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE credits DROP COLUMN taken;
ALTER TABLE analyses DROP COLUMN job_taken;
ALTER TABLE analyses DROP COLUMN job_added;
DROP INDEX runs_decided;
CREATE INDEX runs_decided ON runs (analysis_id, round) WHERE ended_at = 0 AND outcome <> '';
ALTER TABLE runs DROP COLUMN decided_at;
