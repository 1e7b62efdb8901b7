package storetest_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A store's conformance test is one small function. This store can do
// everything but what its Caps name, with the reasons that the skipped claims
// will show.
func ExampleRun() { //nolint:testableexamples // it takes a *testing.T, which only the test runner makes
	TestConformance := func(t *testing.T) {
		storetest.Run(t, func(testing.TB) storetest.Harness {
			s := memstore.New()
			return storetest.Harness{
				Open:   func(testing.TB) store.Store { return s },
				Delete: func(key string) error { s.Delete(key); return nil },
			}
		}, storetest.Caps{
			NoPut:       "every write of this store is conditional",
			NoPurge:     "a deletion always leaves a tombstone",
			NoVisible:   "it has no tools of its own",
			NoInterrupt: "it has no connection",
		})
	}
	_ = TestConformance
}
