//go:build faults

package natsstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The goroutine that serves all watches of a store panics again and again. No
// watch is deaf for good:
//
//	cd test && go test -race -tags faults -run TestAPanicOfTheHub ./natsstore
func TestAPanicOfTheHubLeavesNoWatchDeaf(t *testing.T) {
	for _, kind := range []string{"republished", "consumer"} {
		t.Run(kind, func(t *testing.T) {
			nc := natslab.Start(t).Connect(t)
			bucket := newBucket()
			if kind == "consumer" {
				natslab.KV(t, nc, foreign(bucket))
			} else {
				ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
			}
			s := open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)})
			h := listen(t, s, "k")
			var panics atomic.Int32
			armed := make(chan struct{}, 1)
			faults.Install(func(point string) {
				if point != "hub" {
					return
				}
				select {
				case <-armed:
					panics.Add(1)
					panic("boom")
				default:
				}
			})
			defer faults.Install(nil)
			rev := uint64(0)
			for range 5 {
				armed <- struct{}{} // the next turn panics: the one that the write brings about
				rev = must(t, s, store.Write{Key: "k", Expected: rev, Value: []byte("v")})
				h.revision(rev)
				// One more write, since the turn may be that of a heartbeat.
				rev = must(t, s, store.Write{Key: "k", Expected: rev, Value: []byte("v")})
				h.revision(rev)
			}
			// The last turn may deliver both of its writes before it panics.
			natslab.Eventually(t, "5 panics", func(context.Context) error {
				if n := panics.Load(); n < 5 {
					return fmt.Errorf("%d panics", n)
				}
				return nil
			})
		})
	}
}

// The goroutine that sends the writes panics before each. They end, and say
// that they never left.
func TestAPanicOfTheWritesEndsThem(t *testing.T) {
	nc := natslab.Start(t).Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	s := open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)})
	u := newUnwaited(t, s)
	for range 3 {
		faults.Install(func(point string) {
			if point == "writes" {
				panic("boom")
			}
		})
		_, err := u.CompareAndSwap(natslab.Within(t), store.Write{Key: "k", Value: []byte("v")})
		faults.Install(nil)
		trial.Outcome(t, err, store.Transient)
	}
	must(t, u, store.Write{Key: "k", Value: []byte("v")})
}

// While nobody watches, a write that nobody waits for has a goroutine of its
// own. A panic in that would end the program, and the write would never end.
func TestAPanicOfAWriteBesideTheHubIsAnUnknownOutcome(t *testing.T) {
	nc := natslab.Start(t).Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	u := unwaited{open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)}), t}
	faults.Install(func(point string) {
		if point == "beside" {
			panic("boom")
		}
	})
	_, err := u.CompareAndSwap(natslab.Within(t), store.Write{Key: "k", Value: []byte("v")})
	faults.Install(nil)
	trial.Outcome(t, err, store.Unknown)
	must(t, u, store.Write{Key: "k", Value: []byte("v")})
}
