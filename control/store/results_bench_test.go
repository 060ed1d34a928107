package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/protocol"
)

// results prepares n analyses under way and returns the results that their workers are about to post.
func results(b *testing.B, s store.Store, prefix string, n int) []store.ResultPost {
	b.Helper()
	posts := make([]store.ResultPost, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				var err error
				if posts[i], err = underWay(b.Context(), s, fmt.Sprintf("%s_%d", prefix, i), store.RunFollowed); err != nil {
					b.Error(err)

					return
				}
			}
		})
	}
	all.Wait()

	return posts
}

// underWay makes an analysis that a worker has done its work on, and the result that it posts.
func underWay(ctx context.Context, s store.Store, id string, run store.RunReason) (store.ResultPost, error) {
	n := storetest.NewAnalysis(id)
	if _, _, err := s.CreateAnalysis(ctx, n); err != nil {
		return store.ResultPost{}, err
	}
	if _, err := s.Submit(ctx, store.Submission{ID: id, Clips: n.Clips, Run: run}); err != nil {
		return store.ResultPost{}, err
	}
	g, err := s.Redeem(ctx, id, storetest.QueueHolder("w1", id, 1), store.JobSeen{}, storetest.Lease)
	if err != nil {
		return store.ResultPost{}, err
	}
	l := storetest.LeaseOf(g)
	art := storetest.Artifact(l)
	if err := s.GrantArtifact(ctx, l, art); err != nil {
		return store.ResultPost{}, err
	}

	return storetest.Post(l, protocol.ResultCompleted, func(d *protocol.ResultData) {
		d.Artifact = &protocol.Artifact{Key: art.Key, Size: art.Size, SHA256: art.SHA256}
		d.Model, d.Clips = art.Model, art.Clips
	}), nil
}

const (
	// posters is how many workers post at once, perRound how many results they post between two looks at the clock.
	posters  = 32
	perRound = 512
)

// benchmarkResults lets many workers post results at once: each is the compare-and-set with its webhook id, credit, timeline, run and
// outbox in one transaction.
func benchmarkResults(b *testing.B, s store.Store) {
	b.Helper()
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		rounds++
		posts := results(b, s, fmt.Sprintf("an_%d", rounds), perRound)
		b.StartTimer()
		postAll(b, s, posts)
	}
	b.ReportMetric(float64(rounds*perRound)/b.Elapsed().Seconds(), "results/s")
}

func postAll(b *testing.B, s store.Store, posts []store.ResultPost) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range posters {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(posts) {
					return
				}
				if v, err := s.RecordResult(b.Context(), posts[i]); err != nil || v.Decision != store.DecisionAccepted {
					b.Error(v, err)

					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkResultsSQLite(b *testing.B) {
	s, err := store.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchmarkResults(b, s)
}

func BenchmarkResultsPostgres(b *testing.B) {
	s, err := store.Open(b.Context(), pgtest.Start(b).Database(), store.Options{MaxConns: 16})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	benchmarkResults(b, s)
}
