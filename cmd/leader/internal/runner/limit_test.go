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

// The first hosts make the bucket, and a host that starts while its server is
// away finds none either. They would wait until the end of the period, though
// another has started the run.
func TestAHostThatCouldNotWatchAtItsStartEndsWithTheOthers(t *testing.T) {
	for fails, want := range map[int]int{0: 0, 1: 0, 5: 1} {
		synctest.Test(t, func(t *testing.T) {
			s, c := &lateStore{memstore.New(), fails}, &Command{Once: true, Every: new(24 * time.Hour), Group: "g"}
			c.Timeout = time.Second
			var said strings.Builder
			r := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "a"}, err: &said, result: make(chan int, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.beginPeriod(ctx)
			r.runs = r.register(s, untold)
			r.limit(ctx)
			other := &runner{c: c, cfg: leader.ElectionConfig{InstanceID: "b"}, period: r.period}
			if by, err := other.register(s, untold).Note(ctx, 7); by != nil || err != nil {
				t.Fatalf("noted before by %+v, error %v", by, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(r.result) != 1 {
				t.Errorf("after %d watches that failed it has not ended", fails)
			}
			// A bucket that is made within a second is not reported.
			if got := strings.Count(said.String(), "no bucket yet"); got != want {
				t.Errorf("after %d watches that failed it printed %q", fails, said.String())
			}
		})
	}
}

// It was refused while the term lasted, and comes only once. A host that
// remained a candidate would begin the run of an old period later.
func TestThePeriodThatEndsDuringATermWithoutAProgramEndsTheHostAfterIt(t *testing.T) {
	for begun, want := range map[bool]int{false: exitTaken, true: 7} {
		synctest.Test(t, func(t *testing.T) {
			e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
				Group: "g", InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{c: &Command{Once: true, Every: new(time.Hour)}, err: io.Discard, result: make(chan int, 1)}
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
			r.left(&candidacy{e: e, group: "g"})
			if len(r.result) == 0 {
				t.Fatal("it does not end, because of an old period")
			}
			if got := <-r.result; got != want || r.mayLead() == !begun {
				t.Errorf("a program has started: %v; it ends with %d, want %d", begun, got, want)
			}
		})
	}
}
