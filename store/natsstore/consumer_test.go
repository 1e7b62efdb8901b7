package natsstore

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

func TestFilterSetKnowsWhatTheServerHasYetToHear(t *testing.T) {
	s := newFilterSet()
	s.add("a")
	s.add("b")
	if got := s.confirm([]string{"a", "b"}); len(got) != 2 || s.changed {
		t.Errorf("a new consumer: %q, changed %v", got, s.changed)
	}
	s.add("c")
	sent := s.keys()
	if !slices.Equal(sent, []string{"a", "b", "c"}) || !s.changed {
		t.Errorf("to be told: %q, changed %v", sent, s.changed)
	}
	// While the request is under way, one comes and two go.
	s.add("d")
	s.drop("a")
	s.drop("c")
	if got := s.confirm(sent); len(got) != 0 || !s.changed {
		t.Errorf("what came and went meanwhile: %q, changed %v", got, s.changed)
	}
	if got := s.confirm(s.keys()); !slices.Equal(got, []string{"d"}) || s.changed {
		t.Errorf("the one that came: %q, changed %v", got, s.changed)
	}
	s.drop("d")
	s.add("d")
	if got := s.confirm(s.keys()); len(got) != 0 || s.changed {
		t.Errorf("one that was named throughout: %q, changed %v", got, s.changed)
	}
	if s.drop("b") || !s.drop("d") {
		t.Error("a set is empty without its last key, and not before")
	}
}

func TestFilterSetIsBounded(t *testing.T) {
	for _, c := range []struct {
		length, most int
	}{{10, maxFilters}, {store.MaxKey, maxFilterBytes / store.MaxKey}} {
		s := newFilterSet()
		n := 0
		for ; !s.full(); n++ {
			s.add(fmt.Sprintf("%0*d", c.length, n))
		}
		if n != c.most {
			t.Errorf("%d keys of %d bytes, want %d", n, c.length, c.most)
		}
		s.drop(fmt.Sprintf("%0*d", c.length, 0))
		if s.full() {
			t.Error("no room after a key has gone")
		}
	}
}

// A testHub serves one key without a connection: nothing that is tested with it
// sends.
type testHub struct {
	*hub
	r     *register
	heard []uint64
}

func newTestHub(f *feed, r *register) *testHub {
	s := &Store{}
	s.mu.Lock() // for good: the test is the hub's goroutine
	h := &testHub{r: r, hub: &hub{
		s: s, called: sync.NewCond(&s.mu), unsettled: map[*register]struct{}{}, registers: map[string]*register{r.key: r},
	}}
	w := &watch{pending: map[string]bool{}, deliver: func(e store.Entry) { h.heard = append(h.heard, e.Revision) }, begun: true}
	r.feed, r.watches = f, []*watch{w}
	return h
}

func sharedFeedOf(key string) *feed {
	f := &feed{names: newFilterSet(), consumer: true, wide: true, consumption: consumption{round: 1}}
	f.names.add(key)
	return f
}

// A consumer that was lost and made anew brings the present state, so that the
// keys need not be read besides.
func TestTheNextConsumerShowsThePresentState(t *testing.T) {
	for _, c := range []struct {
		name  string
		known uint64 // revision
		shown uint64 // by the next consumer; 0: nothing
		read  bool
		heard []uint64
	}{
		{"nothing was missed", 5, 5, false, []uint64{5}},
		{"a write was missed", 5, 7, false, []uint64{7}},
		{"the server lags, or lost what it knew", 5, 3, true, nil},
		{"the key is gone", 5, 0, true, nil},
		{"the key was absent and is so", 0, 0, false, []uint64{0}},
		{"the first write was missed", 0, 4, false, []uint64{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sharedFeedOf("k")
			h := newTestHub(f, &register{key: "k", known: true, entry: store.Entry{Key: "k", Revision: c.known}})
			f.standing = true
			h.down(f)
			if h.r.nextRead.IsZero() || !h.r.stale {
				t.Fatal("the key is read at once, or never")
			}
			f.round++ // the next consumer
			if c.shown > 0 {
				h.brought(f, store.Entry{Key: "k", Revision: c.shown})
			}
			h.caughtUp(f)
			if h.r.stale != c.read || c.read && !h.r.nextRead.IsZero() && c.shown == 0 {
				t.Errorf("to be read: %v, at %v", h.r.stale, h.r.nextRead)
			}
			if !slices.Equal(h.heard, c.heard) {
				t.Errorf("delivered %v, want %v", h.heard, c.heard)
			}
		})
	}
}

// A key counts as watched when the server has confirmed that the consumer names
// it, and is read until then.
func TestAKeyIsReadUntilItsConsumerNamesIt(t *testing.T) {
	f := sharedFeedOf("k")
	f.standing, f.caughtUp = true, true
	h := newTestHub(f, &register{key: "k"})
	h.found(h.r, store.Entry{Key: "k", Revision: 1})
	if !h.r.stale || time.Until(h.r.nextRead) <= 0 {
		t.Error("it is not read again")
	}
	h.r.stale = false
	f.names.confirm([]string{"k"})
	h.found(h.r, store.Entry{Key: "k", Revision: 1})
	if h.r.stale {
		t.Error("it is read for ever")
	}
}

// What a read shows and the consumer does not bring is a sign that the consumer
// is lost.
func TestAWriteThatAReadShowsIsOwed(t *testing.T) {
	f := sharedFeedOf("k")
	f.standing, f.caughtUp = true, true
	f.names.confirm([]string{"k"})
	h := newTestHub(f, &register{key: "k"})
	h.found(h.r, store.Entry{Key: "k", Revision: 3})
	h.found(h.r, store.Entry{Key: "k", Revision: 3})
	if !f.owesFrom.IsZero() {
		t.Error("the first state, or the same again, is owed")
	}
	h.found(h.r, store.Entry{Key: "k", Revision: 4})
	first := f.owesFrom
	if first.IsZero() {
		t.Error("nothing is owed")
	}
	h.found(h.r, store.Entry{Key: "k", Revision: 5})
	if !f.owesFrom.Equal(first) {
		t.Error("a later debt puts the earlier off")
	}
}

// Only the refusal of a consumer that names several keys is a reason to do
// without it; that of one for a key says that the key may not be watched.
func TestRefusalsOfSharedConsumersAreToldFromOthers(t *testing.T) {
	denied := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
	}
	f := sharedFeedOf("k")
	h := newTestHub(f, &register{key: "k"})
	h.s.api, h.s.stream = "$JS.API.", "KV_b"
	h.consumers = map[*feed]struct{}{f: {}}
	const create = "$JS.API.CONSUMER.CREATE.KV_b."
	for _, name := range []string{"", "X"} { // before it was asked for, and after
		f.name = name
		for _, subject := range []string{create + "Y.$KV.b.k", create + "X.$KV.b.k", create + "Y", "$KV.b.k"} {
			if h.refusedShared(denied(subject)) || h.alone {
				t.Errorf("%q was taken for the refusal of %q", subject, name)
			}
		}
	}
	f.names.drop("k") // nothing is left to be watched otherwise
	h.wake = make(chan struct{}, 1)
	if !h.refusedShared(denied(create+"X")) || !h.alone {
		t.Error("the refusal was not noticed")
	}
	if !h.refusedShared(denied(create+"X")) || h.refusedShared(denied(create+"Y.$KV.b.k")) {
		t.Error("the refusal was not remembered, or another was taken for it")
	}
}

// The hub polls what no consumer brings, and must not become the load that
// keeps consumers from standing.
func TestPollingOfManyKeysIsBounded(t *testing.T) {
	h := &hub{registers: map[string]*register{}}
	if got := h.pollEvery(); got != retryMost {
		t.Errorf("a few keys: each %v", got)
	}
	for i := range 5000 {
		h.registers[strconv.Itoa(i)] = nil
	}
	if got := float64(len(h.registers)) / h.pollEvery().Seconds(); got > pollMost {
		t.Errorf("%v reads in a second", got)
	}
}
