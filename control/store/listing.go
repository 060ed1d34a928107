package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/protocol"
)

// pastAnyID follows every id in the order of bytes: ids are of A-Z, a-z, 0-9, _ and -.
const pastAnyID = "~"

// Analyses reads a page; see PageRequest.
func (s *sqlStore) Analyses(ctx context.Context, r PageRequest) (Page, error) {
	query, args, err := s.listing(r)
	if err != nil {
		return Page{}, err
	}
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return Page{}, fmt.Errorf("list analyses: %w", err)
	}
	all, err := scanAll(rows, scanAnalysis)
	if err != nil {
		return Page{}, fmt.Errorf("list analyses: %w", err)
	}
	if len(all) <= r.Limit {
		return Page{Analyses: all}, nil
	}
	all = all[:r.Limit]
	last := all[len(all)-1]

	return Page{Analyses: all, Next: formatCursor(millis(last.CreatedAt), last.ID)}, nil
}

// listing is the query of a page: one row more than asked for tells whether another page follows.
func (s *sqlStore) listing(r PageRequest) (string, []any, error) {
	before, id, err := parseCursor(r.Cursor)
	if err != nil {
		return "", nil, err
	}
	var args []any
	arg := func(v any) string {
		args = append(args, v)

		return "$" + strconv.Itoa(len(args))
	}
	var where []string
	order := "created_at DESC, id DESC"
	if r.IDPrefix == "" {
		where = append(where, "(created_at, id) < ("+arg(before)+", "+arg(id)+")")
	} else {
		column := "id" + s.byBytes
		order = column
		where = append(where, column+" >= "+arg(r.IDPrefix), column+" < "+arg(r.IDPrefix+pastAnyID))
		if id != "" {
			where = append(where, column+" > "+arg(id))
		}
	}
	if r.Status != "" {
		where = append(where, "status = "+arg(string(r.Status)))
	}
	if r.Account != "" {
		where = append(where, "account = "+arg(r.Account))
	}

	return `SELECT ` + analysisColumns + ` FROM analyses WHERE ` + strings.Join(where, " AND ") + ` ORDER BY ` + order + ` LIMIT ` + arg(r.Limit+1),
		args, nil
}

// formatCursor and parseCursor: a cursor is the sort key of the last row of a page.
func formatCursor(createdAt int64, id string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", createdAt, id))
}

func parseCursor(cursor string) (int64, string, error) {
	if cursor == "" {
		return 1 << 62, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", ErrBadCursor
	}
	at, id, ok := strings.Cut(string(raw), ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || protocol.ValidateID(id) != nil {
		return 0, "", ErrBadCursor
	}

	return ms, id, nil
}

// Open counts the analyses that have not been decided, by state. It reads those, not the rest.
func (s *sqlStore) Open(ctx context.Context) (map[Status]int64, error) {
	out := map[Status]int64{StatusUploading: 0, StatusQueued: 0, StatusProcessing: 0}
	rows, err := s.reader.QueryContext(ctx, `SELECT status, count(*) FROM analyses WHERE status IN ('uploading', 'queued', 'processing') GROUP BY status`)
	if err != nil {
		return nil, fmt.Errorf("count open analyses: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var status Status
		var n int64
		if err := rows.Scan(&status, &n); err != nil {
			return nil, fmt.Errorf("count open analyses: %w", err)
		}
		out[status] = n
	}

	return out, rows.Err()
}

// Backlog tells how many entries of a kind the outbox holds, and since when the oldest waits. A notice that is sent again carries the time of
// the decision, which may be long ago: it waits since it was due.
func (s *sqlStore) Backlog(ctx context.Context) (map[OutboxKind]Backlog, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT kind, count(*), min(CASE WHEN kind = 'renotice' THEN due_at ELSE created_at END) FROM outbox GROUP BY kind`)
	if err != nil {
		return nil, fmt.Errorf("measure outbox: %w", err)
	}
	defer rows.Close()
	out := map[OutboxKind]Backlog{}
	for rows.Next() {
		var kind OutboxKind
		var n, oldest int64
		if err := rows.Scan(&kind, &n, &oldest); err != nil {
			return nil, fmt.Errorf("measure outbox: %w", err)
		}
		out[kind] = Backlog{Entries: n, Oldest: fromMillis(oldest)}
	}

	return out, rows.Err()
}
