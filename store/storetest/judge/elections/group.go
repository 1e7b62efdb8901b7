package elections

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
)

// patience bounds every wait. A test that passes never waits that long.
const patience = 3 * time.Minute

// A group is the candidates of one election.
type group struct {
	*testing.T
	h       Harness
	name    string
	moved   chan struct{} // something happened; holds one
	lookout *lookout.Lookout

	mu      sync.Mutex
	members []*member
	terms   []promotion
}

// A promotion is the beginning of one term.
type promotion struct {
	id   string
	term leader.Term
	at   time.Time
}

// A member is one candidate.
type member struct {
	leader.Election
	g    *group
	id   string
	link *link

	mu       sync.Mutex
	passages []leader.Transition
}

// A tweak changes a candidate's configuration.
type tweak func(*leader.ElectionConfig)

func newGroup(t *testing.T, h Harness, name string) *group {
	t.Helper()
	g := &group{T: t, h: h, name: name, moved: make(chan struct{}, 1), lookout: lookout.Keep(t)}
	t.Cleanup(g.verdict)
	return g
}

func ttl(d time.Duration) tweak {
	return func(c *leader.ElectionConfig) { c.TTL, c.HeartbeatInterval = d, d/4 }
}

// join makes a candidate with a separate client, and starts it.
func (g *group) join(id string, tweaks ...tweak) *member {
	g.Helper()
	m := &member{g: g, id: id, link: &link{}}
	cfg := leader.ElectionConfig{
		Group: g.name, InstanceID: id, TTL: g.h.lease(), DeleteOnStop: true,
		Hooks: leader.Hooks{Transition: m.transition},
	}
	cfg.HeartbeatInterval = min(250*time.Millisecond, cfg.TTL/4)
	if !g.h.CoolsDown {
		cfg.AcquireGrace = leader.GraceOff // there was nothing before the test
	}
	for _, t := range tweaks {
		t(&cfg)
	}
	e, err := leader.NewElectionWithStore(m.link.over(g.h.Open(g.T)), cfg)
	if err != nil {
		g.Fatal(err)
	}
	m.Election = e
	g.mu.Lock()
	g.members = append(g.members, m)
	g.mu.Unlock()
	g.lookout.Add(id, e)
	if err := e.Start(context.WithoutCancel(g.Context())); err != nil {
		g.Fatalf("starting %s: %v", id, err)
	}
	g.Cleanup(func() { m.stop(leader.StopOptions{WaitForDemote: true}) })
	return m
}

func (m *member) stop(opts leader.StopOptions) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.StopWithContext(ctx, opts); err != nil && ctx.Err() != nil {
		m.g.Errorf("stopping %s: %v", m.id, err)
	}
}

func (m *member) transition(t leader.Transition) {
	m.mu.Lock()
	m.passages = append(m.passages, t)
	m.mu.Unlock()
	g := m.g
	if t.To == leader.StateLeader {
		g.mu.Lock()
		g.terms = append(g.terms, promotion{m.id, t.Term, t.At})
		g.mu.Unlock()
		g.lookout.Look()
	}
	g.stir()
}

// lost is why the member's latest term ended.
func (m *member) lost() leader.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Backward(m.passages) {
		if p.From == leader.StateLeader {
			return p.Reason
		}
	}
	return ""
}

// stir makes await look again.
func (g *group) stir() {
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

// verdict fails the test if terms did not grow.
func (g *group) verdict() {
	g.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.terms, func(a, b promotion) int { return a.at.Compare(b.at) })
	for i := 1; i < len(g.terms); i++ {
		if a, b := g.terms[i-1], g.terms[i]; b.term.Number <= a.term.Number {
			g.Errorf("terms do not grow: %s leads in %v after %s in %v", b.id, b.term, a.id, a.term)
		}
	}
}

// await waits until the condition holds, looking whenever something happened,
// and now and then.
func (g *group) await(what string, cond func() bool) {
	g.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-g.moved:
		case <-look.C:
		case <-limit.C:
			g.Fatalf("not within %v: %s\n%s", patience, what, g.report())
		}
	}
}

// report describes what all candidates know.
func (g *group) report() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for _, m := range g.members {
		s := m.Status()
		fmt.Fprintf(&b, "%s: %s (%s) since %s, leader %q, %s\n",
			m.id, s.State, s.Reason, s.LastTransition.Format("05.000"), s.LeaderID, s.ConnectionStatus)
		m.mu.Lock()
		for _, p := range m.passages {
			fmt.Fprintf(&b, "    %s %s -> %s: %s\n", p.At.Format("05.000"), p.From, p.To, p.Reason)
		}
		m.mu.Unlock()
	}
	return b.String()
}

// leads waits until the member leads.
func (m *member) leads() {
	m.g.Helper()
	m.g.await(m.id+" leads", m.IsLeader)
}

// follows waits until the member knows that the leader leads.
func (m *member) follows(l *member) {
	m.g.Helper()
	m.g.await(m.id+" follows "+l.id, func() bool { return m.knows(l) })
}

// knows reports whether the member follows the leader.
func (m *member) knows(l *member) bool {
	s := m.Status()
	return s.State == leader.StateFollower && s.LeaderID == l.id
}

// leadsBefore reports whether the member leads, and the other knows it.
func (m *member) leadsBefore(other *member) bool { return m.IsLeader() && other.knows(m) }

// begins waits until a leads and b follows. Their leases are short: where the
// machine stalls for one, b takes over, rightly, and gives it back.
func (g *group) begins(a, b *member) {
	g.Helper()
	g.await(a.id+" leads, and "+b.id+" follows", func() bool {
		if b.IsLeader() {
			_ = b.Resign(g.within()) // unless it has lost it
		}
		return a.leadsBefore(b)
	})
}

// A link is a candidate's way to its store, which a test may cut: the store
// then does not answer, and delivers nothing.
type link struct {
	mu  sync.Mutex
	cut chan struct{} // closed when the link is cut; nil while it is not
}

// over returns the store as it is reached by the link. Of the abilities that
// an election looks for it has those to watch and to write asynchronously, if
// the store has them.
func (l *link) over(st store.Store) store.Store {
	linked := &linked{Store: st, l: l}
	w, ok := st.(store.Watcher)
	if !ok {
		return linked
	}
	watcher := &linkedWatcher{linked, w}
	if a, ok := st.(store.AsyncWriter); ok {
		return &linkedWriter{watcher, a}
	}
	return watcher
}

func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = make(chan struct{})
	close(l.cut)
}

// restore lets calls and news through again.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = nil
}

// hold waits for the end of ctx if the link is cut.
func (l *link) hold(ctx context.Context) error {
	if !l.severed() {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("%w: the link is cut: %w", store.ErrTransient, ctx.Err())
}

func (l *link) severed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut != nil
}

type linked struct {
	store.Store
	l *link
}

func (s *linked) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.l.hold(ctx); err != nil {
		return store.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *linked) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := s.l.hold(ctx); err != nil {
		return 0, err
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Check implements store.Checker by the store's.
func (s *linked) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	if err := s.l.hold(ctx); err != nil {
		return store.Report{}, err
	}
	if c, ok := s.Store.(store.Checker); ok {
		return c.Check(ctx, req)
	}
	return store.Report{}, nil
}

type linkedWatcher struct {
	*linked
	w store.Watcher
}

func (s *linkedWatcher) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	if err := s.l.hold(ctx); err != nil {
		return nil, err
	}
	return s.w.Watch(ctx, keys, func(e store.Entry) {
		if !s.l.severed() {
			deliver(e)
		}
	})
}

type linkedWriter struct {
	*linkedWatcher
	a store.AsyncWriter
}

// CompareAndSwapAsync implements store.AsyncWriter.
func (s *linkedWriter) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	if !s.l.severed() {
		return s.a.CompareAndSwapAsync(deadline, w, done)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		done(0, s.l.hold(ctx))
	}()
	return given(cancel)
}

// given is a write that is waited for until it is given up.
type given func()

func (g given) Cancel() { g() }
