package discovery_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/discovery"
)

var (
	seeds = flag.Int("discovery.seeds", 30, "how many schedules of faults TestSimulation runs")
	base  = flag.Uint64("discovery.base", 1, "the first seed")
)

// A link connects a candidate to the system. A request may be lost, its answer
// may be, and it may arrive when its sender has long given up.
type link struct {
	*system

	mu    sync.Mutex
	rng   *rand.Rand
	bad   bool
	late  *sync.WaitGroup
	wrong func(string)
}

var errLost = errors.New("the connection was lost")

// draw returns what becomes of a message: 0 for nothing bad.
func (l *link) draw() (fate int, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.bad {
		return 0, 0
	}
	return l.rng.IntN(6), time.Duration(l.rng.IntN(6000)) * time.Millisecond
}

func (l *link) spoil(bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = bad
}

func (l *link) Look(ctx context.Context, group string) (discovery.Standing, error) {
	switch fate, delay := l.draw(); fate {
	case 3, 4:
		return discovery.Standing{}, errLost
	case 5: // the process is frozen before it looks, or after it
		time.Sleep(delay / 2)
		s, err := l.system.Look(ctx, group)
		time.Sleep(delay / 2)
		return s, err
	default:
		return l.system.Look(ctx, group)
	}
}

func (l *link) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	ctx = context.WithoutCancel(ctx) // what is late arrives all the same
	return l.send(func() error {
		before := l.stands()
		err := l.system.Announce(ctx, e, stands)
		if err == nil && before.Term > e.Term {
			l.wrong(fmt.Sprintf("term %d of %s replaced term %d of %s", e.Term, e.Instance, before.Term, before.Instance))
		}
		return err
	})
}

func (l *link) Withdraw(ctx context.Context, stands discovery.Standing) error {
	return l.send(func() error { return l.system.Withdraw(context.WithoutCancel(ctx), stands) })
}

func (l *link) send(write func() error) error {
	switch fate, delay := l.draw(); fate {
	case 3:
		return errLost
	case 4:
		_ = write() // and its answer is lost
		return errLost
	case 5:
		l.late.Go(func() {
			time.Sleep(delay)
			_ = write()
		})
		return errLost
	default:
		return write()
	}
}

// TestSimulation puts real elections and their keepers under faults, in virtual
// time: candidates are cut off from the store, from the system or from both,
// hand over, and operators delete the entry. Two more processes follow the
// group, and have such faults too. An entry never replaces a later term's, and
// when the faults are over the leader's entry is there.
func TestSimulation(t *testing.T) {
	for seed := *base; seed < *base+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func simulate(t *testing.T, rng *rand.Rand) {
	t.Helper()
	g := newStage(t)
	s := &system{mortal: rng.IntN(2) == 0, remember: rng.IntN(2) == 0}
	var late sync.WaitGroup
	names, links := []string{"a", "b", "c"}, map[string]*link{}
	for _, id := range names {
		l := &link{system: s, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), late: &late, wrong: func(what string) { t.Error(what) }}
		links[id] = l
		var a discovery.Announcer = l
		if s.mortal {
			a = perishable{l}
		}
		if rng.IntN(3) == 0 {
			g.stand(id) // followers alone announce it
		} else {
			g.join(id, a)
		}
	}
	outside := []string{"x", "y"}
	for _, id := range outside {
		l := &link{system: s, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), late: &late, wrong: func(what string) { t.Error(what) }}
		links[id] = l
		if s.mortal {
			g.follow(id, perishable{l})
		} else {
			g.follow(id, l)
		}
	}
	for range 60 {
		id := names[rng.IntN(len(names))]
		switch x := outside[rng.IntN(len(outside))]; rng.IntN(8) {
		case 0:
			links[x].spoil(rng.IntN(2) == 0)
		case 1:
			g.group.Store(x).CutOff()
		case 2:
			g.group.Store(x).Reconnect()
		default:
		}
		switch rng.IntN(12) {
		case 0, 1:
			links[id].spoil(true)
		case 2:
			links[id].spoil(false)
		case 3:
			g.all[id].CutOff()
		case 4:
			g.all[id].Reconnect()
		case 5:
			s.tamper(discovery.Entry{})
		case 6, 7, 8, 9, 10:
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for _, c := range g.all {
				_ = c.Resign(ctx) // who does not lead has nothing to resign
			}
			cancel()
		default:
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	for _, id := range names {
		links[id].spoil(false)
		g.all[id].Reconnect()
	}
	for _, id := range outside {
		links[id].spoil(false)
		g.group.Store(id).Reconnect()
	}
	pass(time.Minute) // of which the patrol of a candidate takes half, and late writes 6 s
	late.Wait()
	stands, leads := s.stands(), ""
	for _, id := range names {
		if g.all[id].IsLeader() {
			leads = id
		}
	}
	if leads == "" || stands.Instance != leads || stands.Term != g.all[leads].Term().Number {
		t.Errorf("%q leads in term %v, and the entry is %+v", leads, g.all[leads].Term(), stands)
	}
}

// A perishable is a link to a system whose entries expire.
type perishable struct{ *link }

func (p perishable) Refresh(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	return p.send(func() error { return mortal{p.system}.Refresh(ctx, e, stands) })
}
