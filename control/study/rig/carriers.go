package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

const (
	eventsPath   = "/v1/events"
	maxEvent     = 4 << 10
	carrierCount = 8
	postLimit    = time.Minute
	// The retries of the carriers are quick, so that a day takes no day.
	backoffBase, backoffCap = 20 * time.Millisecond, 200 * time.Millisecond
)

// carriers post events, each until it is answered.
type carriers struct {
	client *claimcheck.Client
	url    string
}

func newCarriers(addr string, secrets []webhook.Secret) (*carriers, error) {
	url := "http://" + addr
	client, err := claimcheck.New(claimcheck.Config{
		ControlURL: url, Signer: webhook.NewSigner(secrets), StorageHosts: []string{addr}, AllowInsecure: true,
		Limits: claimcheck.Limits{ResultTimeout: postLimit, BackoffBase: backoffBase, BackoffCap: backoffCap},
	})

	return &carriers{client: client, url: url + eventsPath}, err
}

func (c *carriers) close() {
	if c.client != nil {
		c.client.Close()
	}
}

// post sends the events, some at a time, and waits until all are answered.
func (c *carriers) post(ctx context.Context, events []study.Event) error {
	var next atomic.Int64
	var all sync.WaitGroup
	faults := make([]error, carrierCount)
	for i := range carrierCount {
		all.Go(func() { // ends with the last event, or the first that is refused
			for n := next.Add(1) - 1; n < int64(len(events)) && faults[i] == nil; n = next.Add(1) - 1 {
				faults[i] = c.send(ctx, events[n])
			}
		})
	}
	all.Wait()

	return errors.Join(faults...)
}

func (c *carriers) send(ctx context.Context, e study.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	outcome, err := c.client.Report(ctx, c.url, eventID(e), body)
	if err == nil && outcome != claimcheck.ReportStored {
		err = fmt.Errorf("the door says %s", outcome)
	}
	if err != nil {
		return fmt.Errorf("post %s: %w", e.ID(), err)
	}

	return nil
}

const idPrefix = "evt_"

// eventID is the webhook id of the event, the same on every try.
func eventID(e study.Event) string { return idPrefix + e.ID() }

// door takes events and adds a job for each request: it remembers none, that is what the ledger is for.
type door struct {
	listener net.Listener
	server   *http.Server
	queue    *queue.Queue
	secrets  []webhook.Secret
	verifier *webhook.Verifier
	served   sync.WaitGroup
}

func openDoor(ctx context.Context, q *queue.Queue) (*door, error) {
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		return nil, err
	}
	d := &door{queue: q, secrets: secrets, verifier: webhook.NewVerifier(secrets)}
	if d.listener, err = listen(ctx); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+eventsPath, d.take)
	d.server = &http.Server{Handler: mux, ReadHeaderTimeout: postLimit}
	d.served.Go(func() { _ = d.server.Serve(d.listener) }) // until close

	return d, nil
}

func listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

func (d *door) addr() string { return d.listener.Addr().String() }

func (d *door) close() error {
	err := d.server.Close()
	d.served.Wait()

	return err
}

// take answers when the job is in Redis.
func (d *door) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)

		return
	}
	if _, err := d.verifier.Verify(r.Header, body); err != nil {
		w.WriteHeader(http.StatusUnauthorized)

		return
	}
	if _, err := d.queue.Add(r.Context(), "event", json.RawMessage(bytes.Clone(body)), queue.JobOptions{}); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)

		return
	}
	w.WriteHeader(http.StatusAccepted)
}
