package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A laggingStore has a watch that delivers what the test says.
type laggingStore struct {
	store.Store
	deliver func(store.Entry)
}

func (s *laggingStore) Watch(_ context.Context, _ []string, deliver func(store.Entry)) (stop func(), err error) {
	s.deliver = deliver
	return func() {}, nil
}

// A watch that begins anew says again what it said last. That is older than our
// own write by now, and no sign that the store has lost it.
func TestAWatchThatRepeatsItselfShowsNoLostWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &laggingStore{Store: memstore.New()}
		cfg := ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
		regressed := 0
		cfg.Hooks.Note = func(n Note) {
			if n.Kind == NoteRegressed {
				regressed++
			}
		}
		e := newElection(st, cfg)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st.deliver(store.Entry{Key: record.ControlKey("g")})
		st.deliver(store.Entry{Key: "g"})
		synctest.Wait()
		if !e.IsLeader() {
			t.Fatalf("%+v", e.Status())
		}
		ours, err := st.Get(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		st.deliver(ours)
		synctest.Wait()
		if err := e.Resign(t.Context()); err != nil { // by a vacancy of which the watch has not told
			t.Fatal(err)
		}
		st.deliver(ours)
		synctest.Wait()
		if regressed > 0 {
			t.Error("lost writes were reported")
		}
		_ = e.Stop()
	})
}
