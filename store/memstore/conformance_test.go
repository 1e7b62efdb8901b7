package memstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, newHarness, storetest.Caps{
		NoInterrupt: "a store in the same process has no connection that could break",
		MaxValue:    1 << 20,
	})
}

func newHarness(t testing.TB) storetest.Harness {
	s := memstore.New()
	return storetest.Harness{
		Open:   func(testing.TB) store.Store { return s },
		Delete: func(key string) error { s.Delete(key); return nil },
		Put:    func(key string, value []byte) error { s.Put(key, value); return nil },
		Purge:  func(key string) error { s.Purge(key); return nil },
		Visible: func(key string) (bool, error) {
			e, err := s.Get(t.Context(), key)
			return e.Revision != 0 && !e.Tombstone, err
		},
	}
}
