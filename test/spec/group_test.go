package spec_test

import (
	"context"
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

// The lengths of leases: nothing ends by expiry with the long one, everything
// does soon with the short one.
const (
	long  = 2 * time.Minute
	short = 600 * time.Millisecond
)

// A group is the candidates of one election, in a bucket that was made before.
// While the test runs it looks for two leaders at one instant.
type group struct {
	tb     testing.TB
	bucket string
	moved  chan struct{} // something happened; holds one

	lookout *lookout.Lookout

	mu      sync.Mutex
	members []*member
}

func newGroup(tb testing.TB, bucket string) *group {
	tb.Helper()
	g := &group{tb: tb, bucket: bucket, moved: make(chan struct{}, 1), lookout: lookout.Keep(tb)}
	tb.Cleanup(g.stopAll)
	return g
}

// A member is one candidate and what it told.
type member struct {
	leader.Election
	g  *group
	id string

	mu       sync.Mutex
	story    []string
	warnings []string
	losses   []leader.Reason // why terms ended
	renewals int             // since the latest promotion
	promoted time.Time       // the latest

	proxy *natslab.Proxy // of a member that joined behind one
}

func (g *group) stopAll() {
	g.mu.Lock()
	members := g.members
	g.mu.Unlock()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(m.leave)
	}
	all.Wait()
}

// leave stops without a release, which would be tried for a lease's length
// where the connection is closed already.
func (m *member) leave() {
	_ = m.StopWithContext(context.Background(), leader.StopOptions{WaitForDemote: true})
}

// A tweak changes a candidate's configuration.
type tweak func(*leader.ElectionConfig)

func ttl(d time.Duration) tweak {
	return func(c *leader.ElectionConfig) { c.TTL, c.HeartbeatInterval = d, d/4 }
}

// candidate returns a candidate that was not started.
func (g *group) candidate(nc *nats.Conn, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	cfg := leader.ElectionConfig{
		Bucket: g.bucket, Group: "g", InstanceID: id, TTL: long, HeartbeatInterval: time.Second, DeleteOnStop: true,
	}
	for _, t := range tweaks {
		t(&cfg)
	}
	if cfg.TTL == long {
		cfg.AcquireGrace = leader.GraceOff // no test waits for that long because its bucket is new
	}
	m := &member{g: g, id: id}
	cfg.Hooks = leader.Hooks{Transition: m.transition, Call: m.call, Note: m.noteOf}
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		g.tb.Fatal(err)
	}
	e.OnPromote(func(context.Context, string) { m.tell("won") })
	e.OnDemote(func() { m.tell("lost") })
	m.Election = e
	g.mu.Lock()
	g.members = append(g.members, m)
	g.mu.Unlock()
	g.lookout.Add(id, e)
	return m
}

// join starts a candidate.
func (g *group) join(nc *nats.Conn, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	m := g.candidate(nc, id, tweaks...)
	if err := m.Start(context.Background()); err != nil {
		g.tb.Fatalf("starting %s: %v", id, err)
	}
	return m
}

// joinBehind starts a candidate behind a proxy of its own.
func (g *group) joinBehind(srv *natslab.Server, id string, tweaks ...tweak) *member {
	g.tb.Helper()
	proxy := natslab.NewProxy(g.tb, srv.Addr())
	m := g.join(natslab.Connect(g.tb, proxy.URL()), id, tweaks...)
	m.proxy = proxy
	return m
}

func (m *member) note(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	select {
	case m.g.moved <- struct{}{}:
	default:
	}
}

func (m *member) tell(word string) { m.note(func() { m.story = append(m.story, word) }) }

func (m *member) transition(t leader.Transition) {
	m.note(func() {
		switch {
		case t.To == leader.StateLeader:
			m.renewals, m.promoted = 0, t.At
		case t.From == leader.StateLeader:
			m.losses = append(m.losses, t.Reason)
		}
	})
}

func (m *member) call(c leader.Call) {
	m.note(func() {
		if c.Kind == "renew" && c.Err == nil {
			m.renewals++
		}
	})
}

func (m *member) noteOf(n leader.Note) {
	m.note(func() {
		if n.Kind == leader.NoteWarning {
			m.warnings = append(m.warnings, n.Text)
		}
	})
}

func (m *member) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.story, " ")
}

func (m *member) warned() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.warnings, "\n")
}

// lost returns why the member's terms ended so far.
func (m *member) lost() []leader.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.losses)
}

func (m *member) renewed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewals
}

// leads waits until the member leads.
func (m *member) leads() {
	m.g.tb.Helper()
	m.g.await(m.id+" leads", m.IsLeader)
}

// follows waits until the member knows that another leads.
func (m *member) follows(l *member) {
	m.g.tb.Helper()
	m.g.await(m.id+" follows "+l.id, func() bool {
		s := m.Status()
		return s.State == leader.StateFollower && s.LeaderID == l.id
	})
}

// hears waits until the member knows of any leader. With a short lease it may be
// another than a moment ago: the machine may have stalled for as long.
func (m *member) hears() {
	m.g.tb.Helper()
	m.g.await(m.id+" hears who leads", func() bool { return m.LeaderID() != "" })
}

// leader returns who leads now, or nil.
func (g *group) leader() *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if m.IsLeader() {
			return m
		}
	}
	return nil
}

// leaderAfter waits until somebody leads in a later term.
func (g *group) leaderAfter(term leader.Term) (l *member) {
	g.tb.Helper()
	g.await("a later term", func() bool {
		l = g.leader()
		return l != nil && l.Term().Number > term.Number
	})
	return l
}

// leading waits until somebody leads, and returns how many terms that member
// has lost before this one.
func (g *group) leading() (l *member, losses int, term leader.Term) {
	g.tb.Helper()
	for term.IsZero() { // the machine stalled for a lease
		l = g.leaderAfter(leader.Term{})
		losses = len(l.lost()) // first, so that the end of this term is a further one
		term = l.Term()
	}
	return l, losses, term
}

// await waits until the condition holds, looking whenever something happened.
func (g *group) await(what string, cond func() bool) {
	g.tb.Helper()
	natslab.Await(within(g.tb), g.tb, what, g.moved, cond, g.report)
}

func (g *group) report() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for _, m := range g.members {
		fmt.Fprintf(&b, "%s: %+v; %s; lost by %v; %s\n", m.id, m.Status(), m.told(), m.lost(), m.warned())
	}
	return b.String()
}

// within bounds a wait. It is longer than any wait for an event: some tests
// wait for leases that run out one after the other.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*natslab.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// ensure makes a bucket of ours.
func ensure(tb testing.TB, nc *nats.Conn, bucket string) {
	tb.Helper()
	js := natslab.JetStream(tb, nc)
	natslab.Eventually(tb, "bucket "+bucket+" made", func(ctx context.Context) error {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket})
	})
}

// open opens a bucket as people's tools do.
func open(tb testing.TB, nc *nats.Conn, bucket string) jetstream.KeyValue {
	tb.Helper()
	kv, err := natslab.JetStream(tb, nc).KeyValue(within(tb), bucket)
	if err != nil {
		tb.Fatal(err)
	}
	return kv
}
