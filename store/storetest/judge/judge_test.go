package judge_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
)

func TestTheMemoryStorePasses(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(testing.TB) judge.Subject { return judge.Subject{Registers: inMemory} }, judge.Options{
		Histories: 50,
		Caps:      storetest.Caps{NoInterrupt: "memory has no connection that could break", MaxValue: 1 << 20},
	})
}

// inMemory are the registers of a memory store, which is a claim's own.
func inMemory(t testing.TB) judge.Registers {
	st := memstore.New()
	return judge.Registers{Harness: storetest.Harness{
		Open:   func(testing.TB) store.Store { return st },
		Delete: func(key string) error { st.Delete(key); return nil },
		Put:    func(key string, value []byte) error { st.Put(key, value); return nil },
		Purge:  func(key string) error { st.Purge(key); return nil },
		Visible: func(key string) (bool, error) {
			e, err := st.Get(t.Context(), key)
			return e.Revision != 0 && !e.Tombstone, err
		},
	}}
}

// An honest server executes one command at a time, and none of them has a
// condition but the creation.
type server struct {
	mu      sync.Mutex
	records map[string]store.Entry
	last    uint64
}

// read and write are a command each, on their way for a moment.
func (s *server) read(key string) store.Entry {
	<-time.After(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[key]
}

func (s *server) write(w store.Write, create bool) (rev uint64, stands bool) {
	<-time.After(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.records[w.Key]; create && there {
		return 0, true
	}
	s.last++
	s.records[w.Key] = store.Entry{Key: w.Key, Revision: s.last, Value: w.Value, Tombstone: w.Tombstone}
	return s.last, false
}

// blind is a store as several of the field are (rbroggi's for Redis and MongoDB
// among them): it creates with a condition, and updates by a read that it
// judges and a write that has none.
type blind struct{ *server }

func (b blind) Get(_ context.Context, key string) (store.Entry, error) {
	e := b.read(key)
	e.Key = key
	return e, nil
}

func (b blind) CompareAndSwap(_ context.Context, w store.Write) (uint64, error) {
	if e := b.read(w.Key); e.Revision != w.Expected {
		return 0, fmt.Errorf("%w: revision %d", store.ErrConflict, e.Revision)
	}
	rev, stands := b.write(w, w.Expected == 0)
	if stands {
		return 0, fmt.Errorf("%w: it was created meanwhile", store.ErrConflict)
	}
	return rev, nil
}

func TestAStoreThatUpdatesBlindlyIsCondemned(t *testing.T) {
	t.Parallel()
	st := blind{&server{records: map[string]store.Entry{}}}
	for _, current := range []bool{true, false} {
		trial := histories.Trial{Judge: histories.Judge{CurrentConflicts: current}}
		tally, err := trial.WithoutFaults(t.Context(), 8, []store.Store{st, st, st})
		t.Log(tally)
		if err == nil || !strings.Contains(err.Error(), "no order explains") {
			t.Errorf("the verdict with conflicts in the order %t: %v", current, err)
		}
	}
}
