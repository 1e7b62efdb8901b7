package gcsstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// visible says why the suite does not ask for it.
const visible = "a tombstone is an object, as the record was: its first line says what it is"

func TestConformance(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		prefix := unique("conformance") + "/"
		at := at(tb, srv.Addr, prefix)
		o := operator{tb, c}
		way := natslab.NewProxy(tb, srv.Addr)
		var stores []store.Store
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				s := over(tb, service(tb, way.Addr()), gcsstore.Options{Prefix: prefix, Every: 20 * time.Millisecond})
				stores = append(stores, s)
				return s
			},
			Delete: func(key string) error { return o.remove(at.Name(key)) },
			Put:    func(key string, value []byte) error { return o.put(at.Name(key), value) },
			Purge:  func(key string) error { return o.remove(at.Name(key)) },
			// The emulator forgets everything when it is killed.
			Interrupt: func() error {
				way.Cut()
				trial.Noticed(stores)
				way.Resume()
				return nil
			},
		}
	}, storetest.Caps{MaxValue: gcsstore.MaxValue, NoVisible: visible})
}

func TestElections(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	s := at(t, srv.Addr, "")
	elections.Run(t, elections.Harness{
		Open:   func(tb testing.TB) store.Store { return at(tb, srv.Addr, "") },
		Delete: func(key string) error { return operator{t, c}.remove(s.Name(key)) },
		TTL:    time.Second,
	})
}
