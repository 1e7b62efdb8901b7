package gcsstore_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The emulator forgets everything when it is killed.
func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv := newEmulator(tb)
		process := judge.ProcessOf("the emulator", srv)
		process.Forgets = true
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, srv.Server, srv.c) },
			Addrs:     []string{srv.Addr},
			Processes: []judge.Process{process},
		}
	}, trial.Flags(judge.Options{Lease: time.Second, Caps: storetest.Caps{
		MaxValue:  gcsstore.MaxValue,
		NoVisible: "a tombstone is an object, as the record was: its first line shows which",
	}}))
}

// registers are those below a new prefix.
func registers(tb testing.TB, srv *objectlab.Server, c *storage.Service) judge.Registers {
	tb.Helper()
	opts := gcsstore.Options{Prefix: unique("judged") + "/", Every: 20 * time.Millisecond}
	name := at(tb, srv.Addr, opts.Prefix).Name
	o := operator{tb, c}
	var writes atomic.Int64
	counted := func(rt http.RoundTripper) http.RoundTripper { return counting{rt, &writes} }
	way := natslab.NewRelay(tb, srv.Addr)
	opened := &trial.Opened{}
	return judge.Registers{
		Harness: storetest.Harness{
			Open:   func(tb testing.TB) store.Store { return opened.Add(over(tb, service(tb, way.Addr()), opts)) },
			Delete: func(key string) error { return o.remove(name(key)) },
			Put:    func(key string, value []byte) error { return o.put(name(key), value) },
			Purge:  func(key string) error { return o.remove(name(key)) },
			Interrupt: func() error {
				way.Cut()
				opened.Noticed()
				way.Resume()
				return nil
			},
		},
		At: func(tb testing.TB, addr string) store.Store {
			return over(tb, service(tb, addr, counted), gcsstore.Options{Prefix: opts.Prefix})
		},
		Writes: writes.Load,
		Lend: func(tb testing.TB) judge.Loan {
			c := service(tb, srv.Addr)
			return judge.Loan{
				Store: over(tb, c, gcsstore.Options{Prefix: opts.Prefix}),
				Works: func() error { return operator{tb, c}.put("other", []byte("v")) },
			}
		},
	}
}

// counting counts the writes that it is given.
type counting struct {
	http.RoundTripper
	writes *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}
