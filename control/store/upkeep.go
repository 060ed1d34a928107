package store

import (
	"context"
	"fmt"
	"time"
)

// ForgetWebhooks removes old webhook ids, oldest first, by their index: the cost is that of the rows removed.
func (s *sqlStore) ForgetWebhooks(ctx context.Context, before time.Time, limit int) (int, error) {
	var n int64
	err := s.write(ctx, "forget webhook ids", func(t *tx) error {
		var err error
		n, err = t.exec(`DELETE FROM webhook_ids WHERE id IN (SELECT id FROM webhook_ids WHERE seen_at < $1 ORDER BY seen_at LIMIT $2)`,
			millis(before), limit)

		return err
	})

	return int(n), err
}

// Secret returns the named secret. Two processes that start at once get the same one.
func (s *sqlStore) Secret(ctx context.Context, name string, generate func() []byte) ([]byte, error) {
	var value []byte
	err := s.write(ctx, "secret "+name, func(t *tx) error {
		err := t.run(`INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, generate())
		if err != nil {
			return err
		}

		return t.row(`SELECT value FROM secrets WHERE name = $1`, name).Scan(&value)
	})
	if err == nil && len(value) == 0 {
		err = fmt.Errorf("secret %s is empty", name)
	}

	return value, err
}
