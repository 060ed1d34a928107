-- +goose Up
ALTER TABLE analyses ADD COLUMN job_ends INTEGER NOT NULL DEFAULT -1;
ALTER TABLE analyses ADD COLUMN job_stalls INTEGER NOT NULL DEFAULT -1;

-- +goose Down
ALTER TABLE analyses DROP COLUMN job_stalls;
ALTER TABLE analyses DROP COLUMN job_ends;
