// Package announced judges the adapters of package discovery on real servers:
// elections over an embedded NATS server, and clients that look for the leader
// in another system.
package announced

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// TTL is the TTL of the elections: long enough that a busy machine costs no
// term by itself.
const TTL = 3 * time.Second

// A System is where leaders are announced.
type System struct {
	// Open returns an announcer with its own connections. Each of its writes
	// goes through post, if that is not nil. Without an id it is a follower's.
	Open func(tb testing.TB, group, id string, post *Post) discovery.Announcer
	// Child are the arguments by which a separate process opens one: see Serve.
	Child func(tb testing.TB, group, id string) []string
	// Shown returns the addresses to which a client is led.
	Shown func(ctx context.Context, group string) ([]string, error)
	// Destroy deletes the entry, as an operator does, and Spoil changes a part
	// of it.
	Destroy, Spoil func(ctx context.Context, group string) error
	// Expires reports whether entries run out by themselves.
	Expires bool
	// Within, if it is not zero, is how long after its death a leader may be
	// shown while somebody lives who looks after its entry.
	Within time.Duration
}

// A lab is one system and the elections beside it.
type lab struct {
	System

	t     *testing.T
	nats  *natslab.Server
	group string
}

// A testCase is a case that a separate group plays.
type testCase struct {
	group, name string
	judge       func(*lab)
}

func cases() []testCase {
	return append([]testCase{
		{"follows", "a client reaches the leader", (*lab).follows},
		{"repairs", "what others delete or change is repaired", (*lab).repairs},
		{"late", "a late write replaces no later entry", (*lab).refusesLateWrites},
		{"undo", "a late write does not undo a withdrawal", (*lab).refusesAfterWithdrawal},
		{"frozen", "a frozen leader's entry goes, and stays away", (*lab).frozen},
		{"dead", "the last candidate's entry does what it should", (*lab).allDead},
		{"beside", "followers beside candidates that announce themselves", (*lab).beside},
	}, survivals()...)
}

// survivals are those in which a leader is killed, and somebody lives who looks
// after its entry.
func survivals() []testCase {
	return []testCase{
		{"killed", "a killed leader's entry goes with its lease", (*lab).killed},
		{"survived", "a follower that lives removes the last candidate's entry", (*lab).survived},
		{"outside", "followers announce candidates that do not announce themselves", (*lab).outside},
	}
}

// Groups are the groups of all cases.
func Groups() (all []string) {
	for _, c := range cases() {
		all = append(all, c.group)
	}
	return all
}

// Run judges a system.
func Run(t *testing.T, s System) {
	t.Helper()
	run(t, s, cases())
}

// RunSurvivals judges a system by the cases in which a leader is killed and
// somebody lives who looks after its entry.
func RunSurvivals(t *testing.T, s System) {
	t.Helper()
	run(t, s, survivals())
}

func run(t *testing.T, s System, cases []testCase) {
	t.Helper()
	server := natslab.Start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.judge(&lab{s, t, server, c.group})
		})
	}
}

// A candidate runs in this process.
type candidate struct {
	leader.Election

	mu     sync.Mutex
	events []discovery.Event
}

func (c *candidate) note(ev discovery.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, ev)
}

func (c *candidate) count(kind discovery.Kind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.events {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

// address is the address of a candidate's clients, where nothing listens.
// 192.0.2.0/24 is for documentation (RFC 5737).
func address(id string) string { return fmt.Sprintf("192.0.2.%d:8080", id[0]) }

func config(group, id, address string) leader.ElectionConfig {
	return leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: group, InstanceID: id, TTL: TTL, HeartbeatInterval: TTL / 4, Address: address,
		Meta: map[string]string{"zone": "x"}, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
	}
}

// join starts a candidate and its keeper. Both end with the test.
func (l *lab) join(id string) *candidate {
	l.t.Helper()
	e, err := leader.NewElection(l.nats.Connect(l.t), config(l.group, id, address(id)))
	if err != nil {
		l.t.Fatal(err)
	}
	c := &candidate{Election: e}
	a := l.Open(l.t, l.group, id, nil)
	end := l.keep(func(ctx context.Context) error { return discovery.Keep(ctx, e, a, discovery.Options{Report: c.note}) })
	l.t.Cleanup(func() {
		end()
		_ = e.Stop()
	})
	if err := e.Start(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// keep runs a keeper, until end is called.
func (l *lab) keep(run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() {
		if err := run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	return func() {
		cancel()
		kept.Wait()
	}
}

// follow follows the group, until the test ends or end is called.
func (l *lab) follow() (end func()) {
	l.t.Helper()
	nc, a := l.nats.Connect(l.t), l.Open(l.t, l.group, "", nil)
	end = l.keep(func(ctx context.Context) error {
		return discovery.Follow(ctx, nc, "leaders", l.group, a, discovery.Options{})
	})
	l.t.Cleanup(end)
	return end
}

// child starts a candidate and its keeper in a new process.
func (l *lab) child(id string) *harness.Child {
	l.t.Helper()
	return l.process("candidate", id)
}

// bare starts a candidate without a keeper in a new process.
func (l *lab) bare(id string) *harness.Child {
	l.t.Helper()
	return l.process("bare", id)
}

func (l *lab) process(part, id string) *harness.Child {
	l.t.Helper()
	args := append([]string{part, l.nats.URL(), l.group, id, address(id)}, l.Child(l.t, l.group, id)...)
	c, err := harness.StartChild(context.Background(), args...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Kill)
	var ready string
	if err := c.Hear(&ready); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// awaitShown waits until clients are led to these candidates, and returns how
// long that took.
func (l *lab) awaitShown(ids ...string) time.Duration {
	l.t.Helper()
	begun := time.Now()
	want := make([]string, 0, len(ids))
	for _, id := range ids {
		want = append(want, address(id))
	}
	natslab.Eventually(l.t, fmt.Sprintf("clients are led to %v", ids), func(ctx context.Context) error {
		shown, err := l.Shown(ctx, l.group)
		if err == nil && !slices.Equal(shown, want) {
			err = fmt.Errorf("they are led to %v", shown)
		}
		return err
	})
	return time.Since(begun)
}

// awaitSuccession is awaitShown after a leader's death, which others see to.
func (l *lab) awaitSuccession(ids ...string) time.Duration {
	l.t.Helper()
	took := l.awaitShown(ids...)
	if l.Within > 0 && took > l.Within {
		l.t.Errorf("clients are led to %v %v after the death of the leader, want %v at the most", ids, took, l.Within)
	}
	return took
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) follows() {
	a := l.join("a")
	l.awaitShown("a")
	b := l.join("b")
	l.must(transfer(l.t, a, "b"))
	l.t.Logf("a client is led to the successor after %v", l.awaitShown("b"))
	l.must(b.Pause(natslab.Within(l.t), "the test wants it so"))
	l.awaitShown()
	l.must(b.Resume(natslab.Within(l.t)))
	natslab.Eventually(l.t, "somebody is shown", func(ctx context.Context) error {
		shown, err := l.Shown(ctx, l.group)
		if err == nil && len(shown) != 1 {
			err = fmt.Errorf("%v", shown)
		}
		return err
	})
	l.must(a.Stop())
	l.awaitShown("b")
	l.must(b.Stop())
	l.awaitShown()
}

// transfer waits until the successor is there to take over.
func transfer(t *testing.T, from leader.Election, to string) error {
	t.Helper()
	ctx := natslab.Within(t)
	for from.LeaderID() != to {
		if err := from.Transfer(ctx, to); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			return err
		}
		for info := range from.Observe(ctx) {
			if info.ID != "" {
				break
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (l *lab) repairs() {
	a := l.join("a")
	l.awaitShown("a")
	repaired := 0
	for name, damage := range map[string]func(context.Context, string) error{"deleted": l.Destroy, "changed": l.Spoil} {
		l.must(damage(natslab.Within(l.t), l.group))
		natslab.Eventually(l.t, "what was "+name+" is repaired", func(context.Context) error {
			if n := a.count(discovery.Repaired); n <= repaired {
				return fmt.Errorf("%d repairs", n)
			}
			return nil
		})
		l.awaitShown("a")
		repaired = a.count(discovery.Repaired)
	}
}

// entry is one as a keeper would announce it.
func (l *lab) entry(id string, term uint64) discovery.Entry {
	return discovery.Entry{
		Group: l.group, Instance: id, Term: term, Correlation: fmt.Sprintf("c%d", term), Address: address(id), TTL: time.Minute,
	}
}

// stale announces for a leader that froze just before its write left, and lets
// others do something meanwhile.
func (l *lab) stale(meanwhile func()) error {
	l.t.Helper()
	post := NewPost()
	a := l.Open(l.t, l.group, "a", post)
	stands, err := a.Look(natslab.Within(l.t), l.group)
	l.must(err)
	sending, giveUp := context.WithCancel(natslab.Within(l.t))
	defer giveUp()
	go func() {
		select {
		case <-post.Kept:
			giveUp()
		case <-sending.Done():
		}
	}()
	if err := a.Announce(sending, l.entry("a", 5), stands); err == nil {
		l.t.Fatal("the write was not kept back")
	}
	meanwhile()
	post.Release()
	select {
	case err := <-post.Landed:
		return err
	case <-natslab.Within(l.t).Done():
		l.t.Fatal("the write was not made")
		return nil
	}
}

// announce announces as a keeper does.
func (l *lab) announce(a discovery.Announcer, e discovery.Entry) discovery.Standing {
	l.t.Helper()
	stands, err := a.Look(natslab.Within(l.t), l.group)
	l.must(err)
	l.must(a.Announce(natslab.Within(l.t), e, stands))
	stands, err = a.Look(natslab.Within(l.t), l.group)
	l.must(err)
	if !stands.Entry.Same(e) || stands.Damaged || stands.LastTerm != e.Term {
		l.t.Fatalf("%+v is stored, want %+v", stands, e)
	}
	return stands
}

func (l *lab) refusesLateWrites() {
	b := l.Open(l.t, l.group, "b", nil)
	var before discovery.Standing
	err := l.stale(func() { before = l.announce(b, l.entry("b", 9)) })
	l.t.Logf("the late write: %v", err)
	after, err := b.Look(natslab.Within(l.t), l.group)
	l.must(err)
	if !after.Entry.Same(before.Entry) || after.Version != before.Version || after.Damaged {
		l.t.Errorf("%+v is stored, and before %+v", after, before)
	}
	l.awaitShown("b")
	// The same without a network: the write states what it saw.
	a := l.Open(l.t, l.group, "a", nil)
	l.announce(b, l.entry("b", 10))
	if err := a.Announce(natslab.Within(l.t), l.entry("a", 5), before); !errors.Is(err, discovery.ErrChanged) {
		l.t.Errorf("%v, want ErrChanged", err)
	}
	if err := a.Withdraw(natslab.Within(l.t), before); !errors.Is(err, discovery.ErrChanged) {
		l.t.Errorf("%v, want ErrChanged", err)
	}
	l.awaitShown("b")
}

func (l *lab) refusesAfterWithdrawal() {
	b := l.Open(l.t, l.group, "b", nil)
	err := l.stale(func() {
		stands := l.announce(b, l.entry("b", 9))
		l.must(b.Withdraw(natslab.Within(l.t), stands))
	})
	l.t.Logf("the late write: %v", err)
	l.awaitShown()
	stands, err := b.Look(natslab.Within(l.t), l.group)
	l.must(err)
	if !stands.Entry.IsZero() {
		l.t.Errorf("%+v stands", stands)
	}
}
