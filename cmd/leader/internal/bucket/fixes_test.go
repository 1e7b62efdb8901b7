package bucket

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// warnings makes or changes the stream and returns the store's warnings about
// it.
func warnings(t *testing.T, nc *nats.Conn, cfg jetstream.StreamConfig) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
		t.Fatalf("%s: %v", cfg.Name, err)
	}
	st, err := natsstore.New(nc, bucketOf(&cfg), natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	report, err := st.Check(ctx, store.CheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return report.Warnings
}

// flaws are a bucket each, of which the store warns.
func flaws() map[string]func(*jetstream.StreamConfig) {
	return map[string]func(*jetstream.StreamConfig){
		"none":         func(*jetstream.StreamConfig) {},
		"age":          func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"asynchronous": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"rollups":      func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false },
		"deletions":    func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"indirect":     func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"drops-oldest": func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
		"small":        func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"everything": func(c *jetstream.StreamConfig) {
			c.MaxAge, c.AllowRollup, c.DenyPurge, c.DenyDelete, c.AllowDirect = time.Hour, true, false, false, false
			c.Discard, c.MaxMsgs = jetstream.DiscardOld, 10
		},
	}
}

func TestEachWarningHasACommandThatEndsIt(t *testing.T) {
	nc, _ := devtest.Connect(t, devtest.Serve(t), nats.MaxReconnects(-1)) // as the commands connect
	for name, spoil := range flaws() {
		cfg := jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1, MaxBytes: -1, MaxMsgs: -1,
			Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowDirect: true,
		}
		spoil(&cfg)
		if got, want := len(warnings(t, nc, cfg)), len(fixesFor(&cfg, false)); got != want || (name != "none") != (got > 0) {
			t.Errorf("%s: %d warnings, and %d commands against them", name, got, want)
		}
		for range 2 { // a limit at which nothing is dropped any more is one at which renewals are refused
			for _, w := range weaknesses() {
				if w.has(&cfg, false) && w.apply != nil {
					w.apply(&cfg)
				}
			}
		}
		if left := warnings(t, nc, cfg); len(left) > 0 && name != "memory" && name != "asynchronous" {
			t.Errorf("%s: the commands leave %q", name, left)
		}
	}
}
