//go:build unix

package runner

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A lateStore cannot be watched at first, as a bucket that is not there yet.
type lateStore struct {
	*memstore.Store

	fails int // how often
}

func (s *lateStore) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	if s.fails > 0 {
		s.fails--
		return nil, fmt.Errorf("%w: no bucket yet", store.ErrPermanent)
	}
	return s.Store.Watch(ctx, keys, deliver)
}

// untold is a server that does not report when it stored a record.
func untold(context.Context, string) (time.Time, uint64, error) { return time.Time{}, 0, nil }

// The clocks of hosts may differ by less than a period, so no host notes a run
// that is farther ahead of the server.
func TestARunThatNoHostCanHaveBegunDoesNotCount(t *testing.T) {
	stored := time.UnixMilli(6_000_000)
	entry := store.Entry{Key: "_ctl.g", Revision: 7}
	for name, c := range map[string]struct {
		ahead    time.Duration
		at       time.Time
		revision uint64
		err      error
		want     bool
	}{
		"of the present":                {0, stored, 7, nil, true},
		"a period ahead":                {time.Minute, stored, 7, nil, true},
		"more than a period ahead":      {time.Minute + time.Millisecond, stored, 7, nil, false},
		"centuries ahead":               {1e6 * time.Hour, stored, 7, nil, false},
		"of another entry":              {time.Hour, stored, 6, nil, true},
		"of a store without times":      {time.Hour, time.Time{}, 0, nil, true},
		"of a server that is not asked": {time.Hour, stored, 7, context.DeadlineExceeded, true},
	} {
		cmd := &Command{Once: true}
		cmd.Timeout = time.Second
		r := &runner{c: cmd, err: io.Discard, period: periodAt(stored, time.Minute), storedAt: func(_ context.Context, key string) (time.Time, uint64, error) {
			if key != entry.Key {
				t.Errorf("asked about %s", key)
			}
			return c.at, c.revision, c.err
		}}
		if got := r.credible(t.Context(), entry, inspect.Run{Begin: stored.Add(c.ahead)}); got != c.want {
			t.Errorf("a run %s counts: %v", name, got)
		}
	}
}

// The first hosts of all make the bucket, and whoever starts while its server
// is away finds none either. They would stand until the end of the period,
// though another has begun the run.
func TestAHostThatCouldNotWatchAtItsStartEndsWithTheOthers(t *testing.T) {
	for fails, want := range map[int]int{0: 0, 1: 0, 5: 1} {
		synctest.Test(t, func(t *testing.T) {
			s, c := &lateStore{memstore.New(), fails}, &Command{Once: true, Every: 24 * time.Hour, Group: "g"}
			c.Timeout = time.Second
			var said strings.Builder
			r := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "a"}, keys: s, storedAt: untold, err: &said, result: make(chan int, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.beginPeriod(ctx)
			r.limit(ctx)
			by := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "b"}, keys: s, storedAt: untold, period: r.period}
			if before, err := by.note(ctx, leader.Term{Number: 7}); before != nil || err != nil {
				t.Fatalf("noted before by %+v, error %v", before, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(r.result) != 1 {
				t.Errorf("after %d watches that failed it stands", fails)
			}
			// A bucket that is made within a second is no news.
			if got := strings.Count(said.String(), "no bucket yet"); got != want {
				t.Errorf("after %d watches that failed it said %q", fails, said.String())
			}
		})
	}
}

// It was refused while the term lasted, and comes only once. A host that stood
// on would begin the run of an old period later.
func TestThePeriodThatEndsDuringATermWithoutAProgramEndsTheHostAfterIt(t *testing.T) {
	for begun, want := range map[bool]int{false: exitTaken, true: 7} {
		synctest.Test(t, func(t *testing.T) {
			e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
				Group: "g", InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{c: &Command{Once: true, Every: time.Hour}, err: io.Discard, result: make(chan int, 1)}
			r.beginPeriod(t.Context())
			if !r.mayLead() {
				t.Fatal("no term begins")
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if len(r.result) > 0 {
				t.Fatal("it ends amid its term")
			}
			if begun {
				r.finish(7) // the program's own end
			}
			r.left(&seat{e: e, group: "g"})
			if len(r.result) == 0 {
				t.Fatal("it stands for an old period")
			}
			if got := <-r.result; got != want || r.mayLead() == !begun {
				t.Errorf("a program has begun: %v; it ends with %d, want %d", begun, got, want)
			}
		})
	}
}
