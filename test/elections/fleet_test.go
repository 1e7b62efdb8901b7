package elections_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const rolesBucket = "roles"

// A fleet is some instances that take part in the same roles. For as long as
// the test runs it looks for a role with two leaders at one instant: by the
// contexts of the terms, and by the status of the instances.
type fleet struct {
	tb    testing.TB
	names []string

	mu    sync.Mutex
	live  map[string]context.Context // of the latest term of each role
	by    map[string]string
	terms map[string]uint64
	moves int // roles handed over to an instance that led fewer
	all   []*instance
}

// An instance is one manager with its own connection.
type instance struct {
	*leader.RoleManager
	id string
}

func newFleet(tb testing.TB, roles int) *fleet {
	tb.Helper()
	f := &fleet{
		tb: tb, live: make(map[string]context.Context), by: make(map[string]string), terms: make(map[string]uint64),
	}
	for i := range roles {
		f.names = append(f.names, fmt.Sprintf("role.%04d", i))
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f.patrol(quit)
	}()
	tb.Cleanup(func() {
		for _, i := range f.instances() {
			_ = i.Stop()
		}
		close(quit)
		<-done
	})
	return f
}

func (f *fleet) instances() []*instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// patrol looks for two leaders of a role. Most of the time it rests: it shares a
// processor with the instances.
func (f *fleet) patrol(quit chan struct{}) {
	begun := time.Now()
	for n := 0; ; n++ {
		name := f.names[n%len(f.names)]
		for a, b := range lookout.Pairs(f.instances(), func(i *instance) (term leader.Term) {
			if e := i.Election(name); e != nil {
				term = e.Term()
			}
			return term
		}) {
			f.tb.Errorf("%s has two leaders: %s and %s", name, a.id, b.id)
		}
		if n%len(f.names) != 0 {
			continue
		}
		select {
		case <-quit:
			return
		case <-time.After(max(5*time.Millisecond, 10*time.Since(begun))):
			begun = time.Now()
		}
	}
}

func template(id string, ttl time.Duration) leader.RoleManagerConfig {
	return leader.RoleManagerConfig{
		Election: leader.ElectionConfig{
			Bucket: rolesBucket, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 10, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
		},
		Spread: leader.SpreadConfig{Enabled: true, Pace: 1},
	}
}

// start starts an instance with all roles of the fleet.
func (f *fleet) start(nc *nats.Conn, cfg leader.RoleManagerConfig) *instance {
	f.tb.Helper()
	m, err := leader.NewRoleManager(nc, cfg)
	if err != nil {
		f.tb.Fatal(err)
	}
	i := &instance{m, cfg.Election.InstanceID}
	for _, name := range f.names {
		f.add(i, name)
	}
	f.mu.Lock()
	f.all = append(f.all, i)
	f.mu.Unlock()
	if err := m.Start(f.tb.Context()); err != nil {
		f.tb.Fatal(err)
	}
	return i
}

func (f *fleet) add(i *instance, name string) {
	f.tb.Helper()
	if err := i.Add(f.tb.Context(), leader.Role{
		Name: name, OnPromote: func(ctx context.Context, _ string) { f.promoted(ctx, i.id, name) },
		Hooks: leader.Hooks{Transition: f.transition},
	}); err != nil {
		f.tb.Fatal(err)
	}
}

// promoted judges the beginning of a term by the contexts: the previous term's
// context has ended.
func (f *fleet) promoted(ctx context.Context, id, name string) {
	term, _ := leader.TermFromContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if was := f.live[name]; was != nil && was.Err() == nil && ctx.Err() == nil {
		f.tb.Errorf("%s leads %s while the term of %s lives", id, name, f.by[name])
	}
	if term.Number <= f.terms[name] {
		f.tb.Errorf("%s: term %d after %d", name, term.Number, f.terms[name])
	}
	f.live[name] = ctx //nolint:fatcontext // one context for each role, and no chain of them
	f.by[name], f.terms[name] = id, term.Number
}

func (f *fleet) transition(t leader.Transition) {
	if t.Event == leader.EventDemoted && t.Reason == leader.ReasonBalanced {
		f.mu.Lock()
		f.moves++
		f.mu.Unlock()
	}
}

// moved returns how many roles were handed over since the last call, but for
// those that an instance lost or released.
func (f *fleet) moved() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.moves
	f.moves = 0
	return n
}

func led(is ...*instance) []int {
	all := make([]int, len(is))
	for n, i := range is {
		for _, r := range i.Roles() {
			if r.IsLeader {
				all[n]++
			}
		}
	}
	slices.Sort(all)
	return all
}

// firstLead is for how long nobody may lead. With a twentieth of a processor,
// which is what a load of 30 left to each of 6 processes, 400 elections took
// more than a minute to begin.
const firstLead = 5 * natslab.Patience

// settled waits until the instances lead so many roles, in ascending order, for
// as long as roles still move: how fast they do is the machine's affair.
func (f *fleet) settled(want []int, is ...*instance) {
	f.tb.Helper()
	var last []int
	begun := time.Now()
	for moved := begun; ; {
		looked := time.Now()
		got := led(is...)
		if slices.Equal(got, want) {
			return
		}
		if !slices.Equal(got, last) {
			last, moved = got, looked
		}
		patience := natslab.Patience
		if sum(got) == 0 {
			patience = firstLead
		}
		if looked.Sub(moved) > patience || looked.Sub(begun) > 10*natslab.Patience {
			f.tb.Fatalf("never: roles spread as %v; they are spread as %v", want, got)
		}
		<-time.After(max(10*time.Millisecond, 4*time.Since(looked)))
	}
}

func (f *fleet) stop(i *instance) {
	f.tb.Helper()
	if err := i.Stop(); err != nil {
		f.tb.Fatal(err)
	}
}
