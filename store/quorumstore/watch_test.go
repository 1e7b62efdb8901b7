package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore/internal/ballot"
)

// A hearing is what a watch heard, as key@revision=value.
type hearing struct {
	mu    sync.Mutex
	heard []string
}

func (h *hearing) deliver(e store.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Revision == 0 {
		h.heard = append(h.heard, e.Key+"@0")
		return
	}
	h.heard = append(h.heard, e.Key+"="+string(e.Value))
}

func (h *hearing) since(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.heard[n:])
}

// last returns the last entry of key k that was heard.
func (h *hearing) last() string {
	all := slices.DeleteFunc(h.since(0), func(s string) bool { return !strings.HasPrefix(s, "k") })
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func listen(t *testing.T, s *quorumstore.Store, keys ...string) *hearing {
	t.Helper()
	h := &hearing{}
	stop, err := s.Watch(t.Context(), keys, h.deliver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return h
}

// A plain member does not report changes.
type plain struct{ store.Store }

// A deaf member cannot be watched.
type deaf struct{ *memstore.Store }

func (deaf) Watch(context.Context, []string, func(store.Entry)) (func(), error) {
	return nil, fmt.Errorf("%w: no right to watch", store.ErrPermanent)
}

func TestWatchHearsWritesWhateverTheMembersReport(t *testing.T) {
	mem := memstore.New
	for name, stores := range map[string][]store.Store{
		"all report":     {mem(), mem(), mem()},
		"one is polled":  {mem(), plain{mem()}, mem()},
		"one is deaf":    {mem(), mem(), deaf{mem()}},
		"two are polled": {plain{mem()}, mem(), plain{mem()}},
		"all are polled": {plain{mem()}, plain{mem()}, plain{mem()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members := three()
				for i := range members {
					members[i].Store = stores[i]
				}
				watching, writing := open(t, members), open(t, members)
				if _, err := watching.Check(t.Context(), store.CheckRequest{HeartbeatInterval: time.Second, Key: "k"}); err != nil {
					t.Fatal(err)
				}
				h := listen(t, watching, "k", "other")
				rev := uint64(0)
				for i := range 5 {
					rev = write(t, writing, rev, fmt.Sprint(i))
					time.Sleep(time.Second) // in virtual time: a heartbeat
					synctest.Wait()
					if want := fmt.Sprintf("k=%d", i); h.last() != want {
						t.Errorf("after a heartbeat the watch heard %v, want %s at the end", h.since(0), want)
					}
				}
			})
		})
	}
}

// A value that a polled member and another accepted is heard although the third
// never gets it.
func TestWatchReadsAMemberThatDoesNotReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, stores := memories(3)
		members[2].Store = plain{stores[2]}
		s := open(t, members)
		rev := write(t, s, 0, "v")
		h := listen(t, open(t, members), "k")
		e, err := stores[0].Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		next := accept(t, e, "w", rev+1)
		stores[0].Put("k", next)
		time.Sleep(5 * time.Second)
		if got := h.last(); got != "k=v" {
			t.Errorf("of a value that one member accepted, the watch heard %s", got)
		}
		stores[2].Put("k", next)
		time.Sleep(1100 * time.Millisecond)
		if got := h.last(); got != "k=w" {
			t.Errorf("of a value that two members accepted, the watch heard %s", got)
		}
	})
}

// accept returns what a member's register contains after it accepted a value at
// a higher ballot.
func accept(t *testing.T, e store.Entry, value string, version uint64) []byte {
	t.Helper()
	a, err := ballot.Decode(e)
	if err != nil {
		t.Fatal(err)
	}
	a.Ballot = ballot.Ballot{Counter: a.Promised.Counter + 1<<40, Random: 7} // above all promises
	a.Promised = a.Ballot
	a.Value = ballot.Value{ID: ballot.ID{9}, Version: version, Data: value}
	data, _ := ballot.Encode(&a)
	return data
}

func TestWatchesShowOnlyChosenValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, stores := memories(3)
		s := open(t, members)
		rev := write(t, s, 0, "v")
		if _, err := s.Check(t.Context(), store.CheckRequest{Reads: []string{"founded"}}); err != nil {
			t.Fatal(err)
		}
		stores[1].Put("foreign", []byte("another tool's"))

		other := open(t, members)
		h, wide := listen(t, other, "k", "founded"), &hearing{}
		stop, err := other.WatchPattern(t.Context(), ">", wide.deliver, func(err error) { wide.deliver(store.Entry{Key: fmt.Sprint(err)}) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait()
		slices.Sort(h.heard)
		if got := slices.Compact(h.since(0)); !slices.Equal(got, []string{"founded@0", "k=v"}) {
			t.Errorf("the watch heard %v", got)
		}
		if got := wide.since(0); !slices.Equal(got[:2], []string{"k=v", "<nil>@0"}) || slices.Contains(got, "founded@0") {
			t.Errorf("the watch of a pattern heard %v", got)
		}

		e, err := stores[0].Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		next := accept(t, e, "w", rev+1)
		stores[0].Put("k", next)
		time.Sleep(9 * time.Second) // later the watch has it chosen
		if h.last() == "k=w" || wide.last() == "k=w" {
			t.Errorf("a value that one of three members accepted was delivered: %v, %v", h.since(0), wide.since(0))
		}
		stores[1].Put("k", next)
		synctest.Wait()
		if h.last() != "k=w" || wide.last() != "k=w" {
			t.Errorf("a chosen value was not delivered: %v, %v", h.since(0), wide.since(0))
		}
	})
}

func TestWatchResumesAfterAMajorityWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults []*faultstore.Faults
		reader, writer := three(), three()
		for i := range reader {
			f := faultstore.New(faultstore.Options{})
			t.Cleanup(f.Close)
			faults = append(faults, f)
			reader[i].Store, writer[i].Store = f.Client("reader"), f.Client("writer")
		}
		s := open(t, writer)
		rev := write(t, s, 0, "0")
		h := listen(t, open(t, reader), "k")
		for i, cut := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}} {
			for _, c := range cut {
				faults[c].Partition("reader")
			}
			rev = write(t, s, rev, fmt.Sprint("cut", i))
			time.Sleep(time.Second)
			rev = write(t, s, rev, fmt.Sprint("cut", i)) // reaches all that it can: the first may have left out a slow one
			time.Sleep(3 * time.Second)
			if got, want := h.last(), fmt.Sprint("k=cut", i); len(cut) == 1 && got != want {
				t.Errorf("with a member away the watch heard %s, want %s", got, want)
			}
			for _, c := range cut {
				faults[c].Heal("reader")
			}
			time.Sleep(30 * time.Second)
			if got, want := h.last(), fmt.Sprint("k=cut", i); got != want {
				t.Errorf("after an interruption the watch heard %s, want %s", got, want)
			}
		}
		before := len(h.since(0))
		faults[0].Partition("reader")
		faults[1].Partition("reader")
		faults[0].Heal("reader")
		faults[1].Heal("reader")
		time.Sleep(3 * time.Second)
		if got := h.since(before); len(got) == 0 {
			t.Error("after an interruption without a change the state was not delivered again")
		}
	})
}

// The members that accepted a value may be away later, but for one. A process
// that showed the value before would show that for ever.
func TestValueWithoutAMajorityIsChosenByAWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, stores := memories(3)
		rev := write(t, open(t, members), 0, "v")
		ways, members := reporters(stores)
		h := listen(t, open(t, members), "k")
		time.Sleep(time.Minute)
		// It may have accepted the value, too. If it answered, the others would be a
		// majority without the value.
		ways[1].cut.Store(true)
		e, err := stores[0].Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		stores[0].Put("k", accept(t, e, "w", rev+1))
		time.Sleep(9 * time.Second)
		if got := h.last(); got != "k=v" {
			t.Errorf("after 9 s the watch heard %s", got)
		}
		time.Sleep(20 * time.Second)
		if got := h.last(); got != "k=w" {
			t.Errorf("after 29 s the watch heard %s", got)
		}
	})
}

// The lists of two members may show a value at one of them alone, when another
// was wiped.
func TestWatchOfAPatternKeepsWhatItShowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		if _, err := s.Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ways[1].cut.Store(true) // and so remembers nothing of the value
		write(t, s, 0, "v")
		synctest.Wait()

		late := &lateList{Store: stores[2]}
		members = three()
		members[0].Store, members[1].Store, members[2].Store = stores[0], stores[1], late
		watching, h := open(t, members), &hearing{}
		stop, err := watching.WatchPattern(t.Context(), ">", h.deliver, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait()
		late.on.Store(true)
		time.Sleep(5 * time.Second)
		stores[0].Restore(nil, 0)
		time.Sleep(time.Minute)
		if got := h.since(0); len(got) == 0 || slices.Contains(got, "k@0") {
			t.Errorf("the watch of a pattern heard %v", got)
		}
	})
}

// A lateList begins watches of patterns late.
type lateList struct {
	*memstore.Store
	on atomic.Bool
}

func (l *lateList) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	if l.on.Load() {
		time.Sleep(80 * time.Millisecond) // of virtual time
	}
	return l.Store.WatchPattern(ctx, pattern, deliver, present)
}

// An operator's URL with other names than the candidates' must not show a store
// without groups.
func TestListOfAnotherGroupIsRefused(t *testing.T) {
	members := three()
	write(t, open(t, members), 0, "v")
	members[0].Name = "other"
	refused := make(chan error, 1)
	stop, err := open(t, members).WatchPattern(t.Context(), ">", func(store.Entry) {}, func(err error) { refused <- err })
	if err == nil {
		defer stop()
		err = <-refused
	}
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "other members") {
		t.Errorf("a watch of another group's keys: %v", err)
	}
}

func TestIdleKeyIsHealedByItsWatcher(t *testing.T) {
	t.Run("with a value", func(t *testing.T) { idleKeyIsHealed(t, "v") })
	t.Run("with a control record that was never written", func(t *testing.T) { idleKeyIsHealed(t, "") })
}

func idleKeyIsHealed(t *testing.T, value string) {
	synctest.Test(t, func(t *testing.T) {
		members, stores := memories(3)
		other, rev := open(t, members), uint64(0)
		if value != "" {
			rev = write(t, open(t, members), 0, value)
		} else if _, err := other.Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		listen(t, other, "k")
		content := func() string {
			e, err := stores[1].Get(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			return string(e.Value)
		}
		time.Sleep(time.Minute)
		before, _ := stores[0].Get(t.Context(), "k")
		time.Sleep(time.Minute)
		if e, _ := stores[0].Get(t.Context(), "k"); e.Revision != before.Revision {
			t.Errorf("a key on which all members agree was written to revision %d", e.Revision)
		}
		stores[1].Restore(nil, 0)
		time.Sleep(9 * time.Second)
		if got := content(); got != "" {
			t.Errorf("after 9 s the member contains %q", got)
		}
		// The first attempt may be decided before the member has answered, and the
		// next one follows within twice the ten seconds.
		time.Sleep(40 * time.Second)
		if got := content(); !strings.HasSuffix(got, " value\n"+value) {
			t.Errorf("after 49 s the member contains %q", got)
		}
		shows(t, other, rev, value)
	})
}
