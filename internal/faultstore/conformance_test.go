package faultstore_test

import (
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A perfect network must be a store like any other: what a simulation finds is
// then due to the faults that it asked for.
func TestConformanceWithoutFaults(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		f := faultstore.New(faultstore.Options{})
		t.Cleanup(f.Close)
		var names []string
		return storetest.Harness{
			Open: func(testing.TB) store.Store {
				names = append(names, fmt.Sprint("client ", len(names)))
				return f.Client(names[len(names)-1])
			},
			Delete:    func(key string) error { f.Delete(key); return nil },
			Put:       func(key string, value []byte) error { f.Put(key, value); return nil },
			Purge:     func(key string) error { f.Purge(key); return nil },
			Visible:   func(key string) (bool, error) { e := f.Entry(key); return e.Revision != 0 && !e.Tombstone, nil },
			Interrupt: func() error { f.Partition(names...); f.Heal(names...); return nil },
		}
	}, storetest.Caps{MaxValue: 1 << 20})
}
