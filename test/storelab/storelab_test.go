package storelab_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/storelab"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestElectionsInMemory(t *testing.T) {
	st := memstore.New()
	storelab.Elections(t, storelab.Harness{
		Open:   func(testing.TB) store.Store { return st },
		Delete: func(key string) error { st.Delete(key); return nil },
	})
}

// A store that only answers is polled.
func TestElectionsOverAStoreThatIsPolled(t *testing.T) {
	st := memstore.New()
	storelab.Elections(t, storelab.Harness{
		Open:   func(testing.TB) store.Store { return struct{ store.Store }{st} },
		Delete: func(key string) error { st.Delete(key); return nil },
	})
}

// TestElectionsThatCoolDown is the suite as a forgetful store runs it.
func TestElectionsThatCoolDown(t *testing.T) {
	st := forgetful{memstore.New()}
	storelab.Elections(t, storelab.Harness{
		Open:      func(testing.TB) store.Store { return st },
		CoolsDown: true,
		TTL:       300 * time.Millisecond,
	})
}

// forgetful is a store that says that it may forget.
type forgetful struct{ *memstore.Store }

func (forgetful) Check(context.Context, store.CheckRequest) (store.Report, error) {
	return store.Report{Forgetful: true}, nil
}
