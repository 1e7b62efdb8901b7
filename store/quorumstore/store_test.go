package quorumstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

func TestNewRefusesMembersWithoutAMajority(t *testing.T) {
	m := memstore.New()
	a, b, c := quorumstore.Member{Name: "a", Store: m}, quorumstore.Member{Name: "b", Store: m}, quorumstore.Member{Name: "c", Store: m}
	for name, members := range map[string][]quorumstore.Member{
		"none": nil, "one": {a}, "two": {a, b}, "four": {a, b, c, {Name: "d", Store: m}},
		"twice": {a, b, a}, "unnamed": {a, b, {Store: m}}, "empty": {a, b, {Name: "c"}},
	} {
		if _, err := quorumstore.New(members, quorumstore.Options{}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v; want store.ErrInvalid", name, err)
		}
	}
}

// cutting returns three members with a connection each that can be cut.
func cutting() ([]*faultstore.Faults, []quorumstore.Member) {
	var faults []*faultstore.Faults
	var members []quorumstore.Member
	for _, name := range []string{"a", "b", "c"} {
		f := faultstore.New(faultstore.Options{})
		faults = append(faults, f)
		members = append(members, quorumstore.Member{Name: name, Store: f.Client("p")})
	}
	return faults, members
}

func write(t *testing.T, s store.Store, expected uint64, value string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rev, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: expected, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func shows(t *testing.T, s store.Store, rev uint64, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := s.Get(ctx, "k")
	for store.Classify(err) == store.Transient && ctx.Err() == nil {
		e, err = s.Get(ctx, "k") // a member that came back is not asked at once
	}
	if err != nil || e.Revision != rev || string(e.Value) != value {
		t.Fatalf("Get = %d %q, %v; want %d %q", e.Revision, e.Value, err, rev, value)
	}
}

func TestForeignGroupIsRefused(t *testing.T) {
	members := three()
	rev := write(t, open(t, members), 0, "v")
	members[0].Name = "other"
	_, err := open(t, members).CompareAndSwap(t.Context(), store.Write{Key: "k", Expected: rev})
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "other members") {
		t.Errorf("a write of another group: %v", err)
	}
	shows(t, open(t, append(three()[:0:0], members[1], members[2], quorumstore.Member{Name: "a", Store: members[0].Store})), rev, "v")
}

func TestWritesGoOnWithoutAnyOneMember(t *testing.T) {
	for cut := range 3 {
		faults, members := cutting()
		s := open(t, members)
		rev := write(t, s, 0, "0")
		faults[cut].BlackHole("p")
		rev = write(t, s, rev, "1")
		rev = write(t, s, rev, "2")
		faults[cut].Heal("p")
		faults[(cut+1)%3].Partition("p")
		shows(t, s, rev, "2")
		rev = write(t, s, rev, "3")
		shows(t, open(t, []quorumstore.Member{members[2], members[0], members[1]}), rev, "3")
	}
}

func TestKeyWithoutAMajorityTakesNoWrites(t *testing.T) {
	faults, members := cutting()
	s := open(t, members)
	rev := write(t, s, 0, "v")
	faults[0].Partition("p")
	faults[1].Partition("p")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev, Value: []byte("lost")})
	if c := store.Classify(err); c != store.Transient && c != store.Unknown {
		t.Errorf("a write without a majority: %v", err)
	}
}

func TestWipedMemberIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		rev := write(t, s, 0, "0")
		for i := range 30 {
			synctest.Wait() // for writes that are under way
			stores[i%3].Restore(nil, 0)
			ways[i%3].reconnect() // or s might expect a revision that comes again
			// A process that knows nothing heals the member before the next one is
			// wiped.
			for range 2 {
				rev = write(t, open(t, members), rev, "v")
			}
			rev = write(t, s, rev, "w")
			shows(t, open(t, members), rev, "w")
			for {
				e, err := stores[i%3].Get(t.Context(), "k")
				if err != nil || t.Context().Err() != nil {
					t.Fatal(err)
				}
				if e.Revision != 0 && strings.Contains(string(e.Value), " value\n") {
					break
				}
				rev = write(t, s, rev, "w")
			}
		}
	})
}

// A member without memory is no witness that a key was never written.
func TestWipedMemberAndAnotherDoNotShowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		if _, err := s.Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ways[1].cut.Store(true) // which remembers that nothing was written
		rev := write(t, s, 0, "v")
		synctest.Wait()
		stores[0].Restore(nil, 0)
		ways, members = gates(stores)
		ways[2].delay.Store(int64(80 * time.Millisecond)) // of virtual time
		shows(t, open(t, members), rev, "v")
	})
}

// A member refuses values that are too large, and others take them: an
// acceptance that was sent may always be applied later.
func TestCallWithManyAttemptsKeepsItsOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		rev := write(t, s, 0, "0")
		synctest.Wait()
		for _, g := range ways {
			g.delay.Store(int64(300 * time.Microsecond))
		}
		for _, g := range ways[1:] {
			g.most.Store(1000)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev, Value: make([]byte, 2000)})
		if store.Classify(err) != store.Unknown {
			t.Errorf("a value that one member accepted: %v", err)
		}
	})
}
