package elections_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
)

// A store that only answers is polled.
func TestElectionsOverAStoreThatIsPolled(t *testing.T) {
	st := memstore.New()
	elections.Run(t, elections.Harness{
		Open:   func(testing.TB) store.Store { return struct{ store.Store }{st} },
		Delete: func(key string) error { st.Delete(key); return nil },
	})
}

// TestElectionsThatCoolDown is the suite as a forgetful store runs it.
func TestElectionsThatCoolDown(t *testing.T) {
	st := forgetful{memstore.New()}
	elections.Run(t, elections.Harness{
		Open:      func(testing.TB) store.Store { return st },
		CoolsDown: true,
		TTL:       300 * time.Millisecond,
	})
}

// forgetful is a store that reports that it may forget.
type forgetful struct{ *memstore.Store }

func (forgetful) Check(context.Context, store.CheckRequest) (store.Report, error) {
	return store.Report{Forgetful: true}, nil
}
