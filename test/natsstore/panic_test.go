package natsstore_test

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A function that a watch was given runs on the goroutine that serves all
// watches of the store. However it ends, all of them go on.
func TestADeliveryThatPanicsLeavesNoWatchDeaf(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		for _, kind := range []string{"republished", "consumer"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				nc := natslab.Start(t).Connect(t)
				bucket := newBucket()
				if kind == "consumer" {
					natslab.KV(t, nc, foreign(bucket))
				} else {
					ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
				}
				s := open(t, nc, bucket, natsstore.Options{Logger: slog.New(slog.DiscardHandler)})
				before := listen(t, s, "k")
				failing := &heard{tb: t, entries: make(chan store.Entry, 1<<10)}
				stop, err := s.Watch(t.Context(), []string{"k"}, func(e store.Entry) {
					failing.entries <- e
					if e.Revision > 0 {
						fail()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				after := listen(t, s, "k")
				rev := uint64(0)
				for range 5 {
					rev = must(t, s, store.Write{Key: "k", Expected: rev, Value: []byte("v")})
					before.revision(rev)
					after.revision(rev)
					failing.revision(rev)
				}
				stop()
			})
		}
	}
}
