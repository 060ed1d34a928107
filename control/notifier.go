package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	// noticeTimeout bounds one try of a notice.
	noticeTimeout = 10 * time.Second
	// noticeRetryMost is the longest pause between two tries.
	noticeRetryMost = 5 * time.Minute
	// noticeLife is how long a notice is tried. Whoever was away for longer reads the analyses instead.
	noticeLife = 3 * 24 * time.Hour
	// renoticeTries bounds a notice that a person asked for: about half an hour.
	renoticeTries = 15
)

// notice is the body of a notice, signed as everything else by Standard Webhooks. Its id and bytes are the same on every try, so that a
// receiver that keeps ids tells its customer once; what it needs beyond this it reads from the analysis.
type notice struct {
	// Type is analysis.delivered, analysis.failed or analysis.cancelled.
	Type string `json:"type"`
	// Timestamp is when the outcome was decided.
	Timestamp time.Time  `json:"timestamp"`
	Data      noticeData `json:"data"`
}

type noticeData struct {
	AnalysisID string `json:"analysisId"`
	// Round counts from 0, one more each time a person lets a failed analysis run again.
	Round  int64        `json:"round"`
	Status store.Status `json:"status"`
}

// noticeID is the webhook-id of the notice of a round.
func noticeID(e store.OutboxEntry) string { return fmt.Sprintf("ntc_%s_%d", e.AnalysisID, e.Round) }

// notifier posts notices to the customer's address. Without one notices go nowhere.
type notifier struct {
	url    string
	signer *webhook.Signer
	client *http.Client
	now    func() time.Time
	tries  *prometheus.CounterVec
	log    *slog.Logger
}

func newNotifier(cfg *Config, tries *prometheus.CounterVec, log *slog.Logger) *notifier {
	return &notifier{
		url: cfg.NoticeURL, signer: webhook.NewSigner(cfg.NoticeSecrets), now: cfg.Now, tries: tries, log: log,
		client: &http.Client{
			Timeout: noticeTimeout,
			// A redirect would carry the notice to an address that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// deliver posts the notice of an outbox entry. 2xx and 410 (not wanted) are its end, as is old age; anything else is tried again.
func (n *notifier) deliver(ctx context.Context, e store.OutboxEntry) error {
	if n.url == "" {
		return nil
	}
	// One that a person asked for is old by nature; it ends by its tries.
	if e.Kind == store.OutboxRenotice && e.Tries >= renoticeTries {
		n.tries.WithLabelValues("given_up").Inc()
		n.log.ErrorContext(ctx, "a notice that was asked for is given up", slog.String("analysis_id", e.AnalysisID), slog.Int64("round", e.Round))

		return nil
	}
	if age := n.now().Sub(e.CreatedAt); age > noticeLife && e.Kind != store.OutboxRenotice {
		n.tries.WithLabelValues("given_up").Inc()
		n.log.ErrorContext(ctx, "a notice is given up", slog.String("analysis_id", e.AnalysisID), slog.Int64("round", e.Round), slog.Int64("age_ms", age.Milliseconds()))

		return nil
	}
	status, err := n.post(ctx, e)
	switch {
	case err != nil:
		n.tries.WithLabelValues("unreachable").Inc()

		return err
	case status/100 == 2 || status == http.StatusGone:
		n.tries.WithLabelValues("taken").Inc()

		return nil
	default:
		n.tries.WithLabelValues("refused").Inc()

		return fmt.Errorf("the receiver of notices answered %d", status)
	}
}

func (n *notifier) post(ctx context.Context, e store.OutboxEntry) (int, error) {
	body, err := json.Marshal(notice{
		Type: "analysis." + e.Reason, Timestamp: e.CreatedAt,
		Data: noticeData{AnalysisID: e.AnalysisID, Round: e.Round, Status: store.Status(e.Reason)},
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return 0, errNoticeURL
	}
	r.Header = n.signer.Header(noticeID(e), n.now(), body)
	r.Header.Set("Content-Type", "application/json")
	response, err := n.client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("post notice: %w", withoutURL(err))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // for the connection's sake

	return response.StatusCode, nil
}

// errNoticeURL stands for errors that would quote the address.
var errNoticeURL = errors.New("the address of notices can't be used")

// withoutURL strips an error of the address, whose query may hold a password.
func withoutURL(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}

	return err
}
