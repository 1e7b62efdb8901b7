package leader_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// silent is a store that warns of nothing itself.
func silent() *memstore.Store { return memstore.NewWithOptions(memstore.Options{FirstRevision: 1000}) }

// warnings collects those of the candidates that are made with it.
type warnings struct {
	mu   sync.Mutex
	said map[string][]string // by candidate
}

// of has the candidate's warnings collected under a name.
func (w *warnings) of(name string, cfg leader.ElectionConfig) leader.ElectionConfig {
	cfg.Hooks.Note = func(n leader.Note) {
		if n.Kind == leader.NoteWarning {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.said == nil {
				w.said = map[string][]string{}
			}
			w.said[name] = append(w.said[name], n.Text)
		}
	}
	return cfg
}

// once demands that the candidate has warned once, in such words, and of
// nothing else.
func (w *warnings) once(t *testing.T, name string, words ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said[name]
	if len(said) != 1 {
		t.Fatalf("%s warned %d times: %q", name, len(said), said)
	}
	for _, word := range words {
		if !strings.Contains(said[0], word) {
			t.Errorf("%q does not say %q", said[0], word)
		}
	}
}

func (w *warnings) never(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if said := w.said[name]; len(said) > 0 {
			t.Errorf("%s warned of %q", name, said)
		}
	}
}

// A group's candidates must agree on these. Each warns of a leader that does
// not, once and not with every renewal.
func TestADifferentTTLOrDriftIsWarnedOfOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*leader.ElectionConfig)
		words  []string
		alike  bool
	}{
		"TTL":        {func(c *leader.ElectionConfig) { c.TTL = 2 * ttl }, []string{"TTL", "3s", "6s"}, false},
		"ClockDrift": {func(c *leader.ElectionConfig) { c.ClockDrift = 0.2 }, []string{"ClockDrift", "0.1", "0.2"}, false},
		"AsDefault":  {func(c *leader.ElectionConfig) { c.ClockDrift = leader.DefaultClockDrift }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w warnings
				other := config("b")
				c.change(&other)
				st := silent()
				a, b := start(t, st, w.of("a", config("a"))), start(t, st, w.of("b", other))
				time.Sleep(10 * ttl)
				mustLead(t, a, b)
				if c.alike {
					w.never(t, "a", "b")
					return
				}
				w.once(t, "b", append(c.words, `"a"`)...)
				w.never(t, "a")
				if err := a.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, b, a)
				time.Sleep(10 * ttl)
				w.once(t, "a", append(c.words, `"b"`)...)
				w.once(t, "b")
			})
		})
	}
}

// Candidates of before wrote no drift. That is no other drift.
func TestARecordWithoutADriftIsNoOtherDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		put(t, st, "g", record.Record{ID: "old", Token: "t", TTL: ttl.Milliseconds()})
		a := start(t, st, w.of("a", config("a")))
		time.Sleep(2 * ttl)
		mustLead(t, a)
		if _, r := stored(t, st); r.Drift != leader.DefaultClockDrift {
			t.Errorf("drift %v", r.Drift)
		}
		w.never(t, "a")
	})
}

func TestTwoCandidatesOfOneNameAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		first, second := start(t, st, w.of("first", config("a"))), start(t, st, w.of("second", config("a")))
		time.Sleep(10 * ttl)
		mustLead(t, first, second)
		w.once(t, "second", `"a"`, "InstanceID")
		// The one that has led so far hears of it when it is succeeded.
		w.never(t, "first")
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, second, first)
		w.once(t, "first", `"a"`, "InstanceID")
	})
}

func TestALeaderDeposedUnderItsOwnNameSaysSo(t *testing.T) {
	for _, by := range []string{"a", "b"} {
		t.Run("By"+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w warnings
				st := silent()
				a := start(t, st, w.of("a", config("a")))
				mustLead(t, a)
				put(t, st, "g", record.Record{ID: by, Token: "t", TTL: ttl.Milliseconds()})
				synctest.Wait()
				mustNotLead(t, a)
				if by == "a" {
					w.once(t, "a", "InstanceID")
				} else {
					w.never(t, "a")
				}
			})
		})
	}
}

// A copy of the whole machine has the token, too.
func TestALeaderDeposedByItsOwnTokenSpeaksOfACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		a := start(t, st, w.of("a", config("a")))
		time.Sleep(2*ttl + heartbeat/2)
		mustLead(t, a)
		_, r := stored(t, st)
		r.Renewal++
		term := a.Term()
		put(t, st, "g", r)
		synctest.Wait()
		if a.Term() == term {
			t.Error("the term goes on")
		}
		w.once(t, "a", "cloned", "snapshot")
	})
}

// What a candidate finds of its own after a restart is its predecessor's.
func TestAPredecessorIsNoTwin(t *testing.T) {
	renewal := func(n uint64) record.Record {
		return record.Record{ID: "a", Token: "t", TTL: 2 * ttl.Milliseconds(), Renewal: n, Drift: 0.3}
	}
	t.Run("Crashed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			put(t, st, "g", renewal(5))
			a := start(t, st, w.of("a", config("a")))
			time.Sleep(3 * ttl)
			mustLead(t, a)
			w.never(t, "a")
		})
	})
	t.Run("HeardOfLate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			put(t, st, "g", renewal(5))
			a := start(t, st, w.of("a", config("a")))
			for n := uint64(6); n < 10; n++ { // a replica catches up
				time.Sleep(ttl / 2)
				put(t, st, "g", renewal(n))
			}
			time.Sleep(ttl) // later than a lease after the first: the write that was under way when it died
			put(t, st, "g", renewal(10))
			time.Sleep(3 * ttl)
			mustLead(t, a)
			w.never(t, "a")
		})
	})
	t.Run("StoppedInThisProcess", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w warnings
			st := silent()
			for range 3 {
				a := start(t, st, w.of("a", config("a")))
				time.Sleep(3 * ttl)
				mustLead(t, a)
				if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
					t.Fatal(err)
				}
			}
			w.never(t, "a")
		})
	})
}

// The names of others are without end. What is remembered of them is not.
func TestWarningsOfAFloodOfNamesAreBoundedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		st := silent()
		start(t, st, w.of("a", config("a")))
		for n := range 100 {
			put(t, st, "g", record.Record{ID: strings.Repeat("x", 250+n), Token: "t", TTL: 1})
			synctest.Wait()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.said["a"]); n != 7 { // names have at most 256 bytes: longer ones are nobody's
			t.Errorf("%d warnings", n)
		}
	})
}

// A copy of this machine has all that it remembers. What it writes is to differ
// all the same.
func TestEachWriteCarriesANumberOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		seen := map[string]bool{}
		const writes = 20
		for range writes {
			mustLead(t, a)
			seen[fmt.Sprint(raw(t, st)["nonce"])] = true
			time.Sleep(heartbeat)
		}
		if len(seen) < writes-1 || seen["<nil>"] {
			t.Errorf("%d writes with %d nonces: %v", writes, len(seen), seen)
		}
	})
}
