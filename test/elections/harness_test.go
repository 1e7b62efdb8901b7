package elections_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The lengths of leases. No test depends on either: with the long one nothing
// expires while a test waits, so that whatever happens was not an expiry, and a
// call that is lost is given up in half of that time; with the short one
// everything expires soon.
const (
	long  = 2 * time.Minute
	short = time.Second
)

// A group is the candidates of one election. For as long as the test runs it
// looks for two leaders at one instant, and at its end for terms that did not
// grow.
type group struct {
	tb           testing.TB
	bucket, name string
	moved        chan struct{} // something happened; holds one
	lookout      *lookout.Lookout

	mu         sync.Mutex
	members    []*member
	promotions []promotion
}

// A promotion is who led when.
type promotion struct {
	id   string
	term leader.Term
	at   time.Time
}

// A member is one candidate and the calls of its hooks.
type member struct {
	leader.Election
	g     *group
	id    string
	proxy *natslab.Relay // of a member that joined behind one

	mu       sync.Mutex
	calls    map[string]int // by "kind" and by "kind outcome"
	notes    []leader.Note
	passages []leader.Transition
	story    []string // "promote" and "demote", as callbacks
	lastErr  error    // of a call that failed
}

// A tweak changes a candidate's configuration.
type tweak func(*leader.ElectionConfig)

func ttl(d time.Duration) tweak {
	return func(c *leader.ElectionConfig) { c.TTL, c.HeartbeatInterval = d, d/4 }
}

// newGroup begins an election in a bucket. Create it after the servers and the
// connections, so that its candidates stop before them.
func newGroup(tb testing.TB, bucket string) *group {
	tb.Helper()
	g := &group{tb: tb, bucket: bucket, name: "g", moved: make(chan struct{}, 1), lookout: lookout.Keep(tb)}
	tb.Cleanup(func() {
		g.stopAll()
		g.verdict()
	})
	return g
}

// config is the configuration of a candidate that releases when stopped. It
// does not cool down: the bucket is the test's own, and there was none before.
func (g *group) config(id string, tweaks []tweak) leader.ElectionConfig {
	cfg := leader.ElectionConfig{
		Bucket: g.bucket, Group: g.name, InstanceID: id,
		TTL: long, HeartbeatInterval: time.Second,
		BucketAutoCreate: true, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
	}
	for _, t := range tweaks {
		t(&cfg)
	}
	return cfg
}

// candidate makes a candidate that is not started.
func (g *group) candidate(nc *nats.Conn, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	m := &member{g: g, id: id, calls: map[string]int{}}
	cfg := g.config(id, tweaks)
	m.watch(&cfg)
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		g.tb.Fatal(err)
	}
	m.enlist(e)
	return m
}

func (m *member) enlist(e leader.Election) {
	m.Election = e
	e.OnPromote(func(context.Context, string) { m.note("promote") })
	e.OnDemote(func() { m.note("demote") })
	e.OnLeaderChange(func(leader.LeaderInfo) { m.g.stir() })
	m.g.mu.Lock()
	m.g.members = append(m.g.members, m)
	m.g.mu.Unlock()
	m.g.lookout.Add(m.id, e)
}

func (m *member) note(word string) {
	m.mu.Lock()
	m.story = append(m.story, word)
	m.mu.Unlock()
	m.g.stir()
}

// watch takes the candidate's hooks.
func (m *member) watch(cfg *leader.ElectionConfig) {
	cfg.Hooks = leader.Hooks{
		Transition: func(t leader.Transition) {
			m.mu.Lock()
			m.passages = append(m.passages, t)
			m.mu.Unlock()
			m.g.transition(m, t)
		},
		Call: func(c leader.Call) {
			m.mu.Lock()
			m.calls[c.Kind]++
			m.calls[c.Kind+" "+c.Outcome.String()]++
			if c.Err != nil {
				m.lastErr = c.Err
			}
			m.mu.Unlock()
			m.g.stir()
		},
		Note: func(n leader.Note) {
			m.mu.Lock()
			m.notes = append(m.notes, n)
			m.mu.Unlock()
			m.g.stir()
		},
	}
}

// join makes a candidate and starts it.
func (g *group) join(nc *nats.Conn, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	m := g.candidate(nc, id, tweaks...)
	m.start()
	return m
}

// joinBehind makes a candidate behind a separate proxy and starts it.
func (g *group) joinBehind(srv *natslab.Server, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	proxy := natslab.NewRelay(g.tb, srv.Addr())
	m := g.join(natslab.Connect(g.tb, proxy.URL()), id, tweaks...)
	m.proxy = proxy
	return m
}

func (m *member) start() {
	m.g.tb.Helper()
	if err := m.Start(context.Background()); err != nil {
		m.g.tb.Fatalf("starting %s: %v", m.id, err)
	}
}

// resign has the member leave its term.
func (m *member) resign() {
	m.g.tb.Helper()
	if err := m.Resign(natslab.Within(m.g.tb)); err != nil {
		m.g.tb.Fatalf("%s resigns: %v", m.id, err)
	}
}

// succeed makes the member lead: any other leader resigns, as often as needed.
// On a busy machine a short lease may run out before its leader gets the
// request to resign, and a candidate that has resigned may win again.
func (m *member) succeed() {
	m.g.tb.Helper()
	ctx := natslab.Within(m.g.tb)
	for ctx.Err() == nil {
		l := m.g.leader()
		if l == m {
			return
		}
		if err := l.Resign(ctx); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			m.g.tb.Fatalf("%s resigns: %v", l.id, err)
		}
	}
	m.g.tb.Fatalf("%s never leads\n%s", m.id, m.g.report())
}

// count is how many calls of a kind, or of a kind and outcome, ended so far.
func (m *member) count(call string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}

// noted returns the texts of the notes of a kind.
func (m *member) noted(kind string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var texts []string
	for _, n := range m.notes {
		if n.Kind == kind {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// told is the sequence of callbacks so far.
func (m *member) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.story, " ")
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

// losses is how many terms of the member have ended.
func (m *member) losses() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.passages {
		if p.From == leader.StateLeader {
			n++
		}
	}
	return n
}

// stir makes await look again.
func (g *group) stir() {
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

func (g *group) transition(m *member, t leader.Transition) {
	if t.To == leader.StateLeader {
		g.mu.Lock()
		g.promotions = append(g.promotions, promotion{m.id, t.Term, t.At})
		g.mu.Unlock()
		g.lookout.Look()
	}
	g.stir()
}

// verdict fails the test for what went wrong in its course.
func (g *group) verdict() {
	g.tb.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.promotions, func(a, b promotion) int { return a.at.Compare(b.at) })
	for i := 1; i < len(g.promotions); i++ {
		if a, b := g.promotions[i-1], g.promotions[i]; b.term.Number <= a.term.Number {
			g.tb.Errorf("terms do not grow: %s leads in %v after %s in %v", b.id, b.term, a.id, a.term)
		}
	}
}

func (g *group) stopAll() {
	g.mu.Lock()
	members := slices.Clone(g.members)
	g.mu.Unlock()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() { _ = m.StopWithContext(context.Background(), leader.StopOptions{WaitForDemote: true}) })
	}
	all.Wait()
}

// await waits until the condition holds, looking whenever something happened.
func (g *group) await(what string, cond func() bool) {
	g.tb.Helper()
	natslab.Await(natslab.Within(g.tb), g.tb, what, g.moved, cond, g.report)
}

// report describes the state that each member knows.
func (g *group) report() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for i, m := range g.members {
		if i == 10 {
			fmt.Fprintf(&b, "and %d more\n", len(g.members)-i)
			break
		}
		s := m.Status()
		m.mu.Lock()
		fmt.Fprintf(&b, "%s: %s (%s) since %s, leader %q, %s; calls %v, last failure: %v\n",
			m.id, s.State, s.Reason, s.LastTransition.Format("05.000"), s.LeaderID, s.ConnectionStatus, m.calls, m.lastErr)
		for _, p := range m.passages {
			fmt.Fprintf(&b, "    %s %s -> %s: %s\n", p.At.Format("05.000"), p.From, p.To, p.Reason)
		}
		for _, n := range m.notes {
			fmt.Fprintf(&b, "    %s %s %s: %s\n", n.At.Format("05.000"), n.Kind, n.Call, n.Text)
		}
		m.mu.Unlock()
	}
	return b.String()
}

// leader waits until one of the members leads, and returns it.
func (g *group) leader() *member {
	g.tb.Helper()
	return g.leaderAfter(nil)
}

// leaderAfter waits until a member other than old leads.
func (g *group) leaderAfter(old *member) *member {
	g.tb.Helper()
	var found *member
	g.await("a leader", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.members {
			if m != old && m.IsLeader() {
				found = m
			}
		}
		return found != nil
	})
	return found
}

// leading waits until a member leads, and returns it with its term and how many
// terms it has lost before.
func (g *group) leading() (l *member, losses int, term leader.Term) {
	g.tb.Helper()
	for term.IsZero() { // the machine stalled for a lease
		l = g.leader()
		losses = l.losses() // first, so that the end of this term is a further one
		term = l.Term()
	}
	return l, losses, term
}

// leaderOfALaterTerm waits until a member leads in a later term.
func (g *group) leaderOfALaterTerm(term leader.Term) (l *member) {
	g.tb.Helper()
	g.await("a later term", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.members {
			if m.IsLeader() && m.Term().Number > term.Number {
				l = m
			}
		}
		return l != nil
	})
	return l
}

// leads waits until the member leads.
func (m *member) leads() {
	m.g.tb.Helper()
	m.g.await(m.id+" leads", m.IsLeader)
}

// hears waits until the member knows of any leader. With a short lease it may be
// another than a moment ago: the machine may have stalled for as long.
func (m *member) hears() {
	m.g.tb.Helper()
	m.g.await(m.id+" hears who leads", func() bool { return m.LeaderID() != "" })
}

// follows waits until the member knows that the leader leads.
func (m *member) follows(l *member) {
	m.g.tb.Helper()
	m.g.await(m.id+" follows "+l.id, func() bool {
		s := m.Status()
		return s.State == leader.StateFollower && s.LeaderID == l.id
	})
}

// ensure makes a bucket with the library before it is used.
func ensure(tb testing.TB, nc *nats.Conn, cfg natsstore.BucketConfig) {
	tb.Helper()
	js := natslab.JetStream(tb, nc)
	natslab.Eventually(tb, "bucket "+cfg.Bucket+" made", func(ctx context.Context) error {
		if err := natsstore.EnsureBucket(ctx, js, cfg); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, cfg.Bucket)
		return err
	})
}

// await receives what is to come in time.
func await[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-natslab.Within(t).Done():
		t.Fatal("it never came")
	}
	return v
}

// handover makes the leader resign and waits for the other: a candidate whose
// watch was lost in an interruption does not pass.
func (g *group) handover(from, to *member) {
	g.tb.Helper()
	to.follows(from)
	from.resign()
	g.await(to.id+" leads", to.IsLeader)
}

// open opens a bucket as people's tools do.
func open(tb testing.TB, nc *nats.Conn, bucket string) jetstream.KeyValue {
	tb.Helper()
	kv, err := natslab.JetStream(tb, nc).KeyValue(natslab.Within(tb), bucket)
	if err != nil {
		tb.Fatal(err)
	}
	return kv
}

// The bucket and the group of tests that need no more of a group than a leader.
const (
	leaders = "leaders"
	jobs    = "jobs/eu.west"
)

// stand starts a candidate of the group jobs, whose TTL no test waits for. An
// answer that was lost with a server is given up long before.
func stand(t *testing.T, nc *nats.Conn, id string, tweaks ...tweak) leader.Election {
	t.Helper()
	cfg := leader.ElectionConfig{
		Bucket: leaders, Group: jobs, InstanceID: id, Address: "http://" + id,
		TTL: long, HeartbeatInterval: time.Second, ConnectionTimeout: 5 * time.Second,
		BucketAutoCreate: true, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

// hooked has a candidate call the hooks.
func hooked(hooks leader.Hooks) tweak {
	return func(c *leader.ElectionConfig) { c.Hooks = hooks }
}

// awaitLeader waits until e sees a leader.
func awaitLeader(t *testing.T, e leader.Election) leader.LeaderInfo {
	t.Helper()
	for info := range e.Observe(natslab.Within(t)) {
		if info.ID != "" {
			return info
		}
	}
	t.Fatal("nobody leads")
	return leader.LeaderInfo{}
}

// control returns a Control of the bucket leaders for the operator ann.
func control(t *testing.T, nc *nats.Conn) *leader.Control {
	t.Helper()
	c, err := leader.NewControl(nc, leaders, "ann")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
