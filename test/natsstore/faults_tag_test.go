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
// watch stays silent:
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
			faults.Set(func(point string) {
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
			defer faults.Set(nil)
			rev := uint64(0)
			for range 5 {
				armed <- struct{}{} // the next turn panics: the one that the write brings about
				rev = must(t, s, store.Write{Key: "k", Expected: rev, Value: []byte("v")})
				h.revision(rev)
				// One more write, since the turn may belong to a heartbeat.
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

// The goroutine that sends the writes panics before each. They end, with an
// error that they never left.
func TestAPanicOfTheWritesEndsThem(t *testing.T) {
	nc := natslab.Start(t).Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	s := open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)})
	u := newUnwaited(t, s)
	for range 3 {
		faults.Set(func(point string) {
			if point == "writes" {
				panic("boom")
			}
		})
		_, err := u.CompareAndSwap(natslab.Within(t), store.Write{Key: "k", Value: []byte("v")})
		faults.Set(nil)
		trial.Outcome(t, err, store.Transient)
	}
	must(t, u, store.Write{Key: "k", Value: []byte("v")})
}

// While there is no watch, a write without a waiting caller has a separate
// goroutine. A panic in that would end the program, and the write would never
// end.
func TestAPanicOfAWriteBesideTheHubIsAnUnknownOutcome(t *testing.T) {
	nc := natslab.Start(t).Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	u := unwaited{open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)}), t}
	faults.Set(func(point string) {
		if point == "beside" {
			panic("boom")
		}
	})
	_, err := u.CompareAndSwap(natslab.Within(t), store.Write{Key: "k", Value: []byte("v")})
	faults.Set(nil)
	trial.Outcome(t, err, store.Unknown)
	must(t, u, store.Write{Key: "k", Value: []byte("v")})
}
