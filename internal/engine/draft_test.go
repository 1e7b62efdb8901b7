package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A candidate remembers its latest write until the record shows the outcome.
// Thousands of leaders keep nothing between two renewals.
func TestLatestWriteIsForgottenWhenTheRecordShowsWhatBecameOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeam(t, t.Name())
		defer s.end()
		for name, shows := range map[string]struct {
			entry store.Entry
			keeps bool
		}{
			"the write":      {entry: store.Entry{Revision: 8}},
			"another's":      {entry: store.Entry{Revision: 9, Value: []byte(`{"id":"b","token":"x"}`)}},
			"a deletion":     {entry: store.Entry{Revision: 8, Tombstone: true}},
			"what it is for": {entry: store.Entry{Revision: 7, Value: []byte(`{"id":"b","token":"x"}`)}, keeps: true},
		} {
			s.l.send(&machine.Action{Kind: machine.Send, Write: machine.Acquire, Expected: 7, Rec: machine.Record{ID: "a", Token: "t", TTL: time.Second}})
			synctest.Wait()
			if s.l.draft == nil {
				t.Fatal("the write is not remembered")
			}
			if e := &shows.entry; e.Value == nil && !e.Tombstone {
				e.Value = s.l.draft.Value
			}
			s.l.read(&shows.entry, new(machine.Seen))
			if keeps := s.l.draft != nil; keeps != shows.keeps {
				t.Errorf("%s: the write is remembered: %v", name, keeps)
			}
		}
	})
}

func TestLeaderRemembersNoWriteBetweenTwoRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(memstore.New(), testConfig())
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(testConfig().HeartbeatInterval) // virtual
			synctest.Wait()
			err := c.Inspect(t.Context(), func(s machine.State) {
				if s.Phase != machine.Holding || c.loop.draft != nil {
					t.Errorf("phase %v, remembers %v", s.Phase, c.loop.draft)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
	})
}
