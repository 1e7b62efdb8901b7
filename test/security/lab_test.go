package security_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The lengths of leases: nothing ends by expiry with the long one, everything
// does soon with the short one.
const (
	long  = 2 * time.Minute
	short = 600 * time.Millisecond
)

// The roles of docs/operate/permissions.md: names of users, and the headings of their
// tables.
const (
	candidate = "candidate"
	observer  = "observer"
	viewer    = "viewer"
	operator  = "operator"
	caretaker = "caretaker"
	admin     = "admin"
)

func heading(role string) string { return "## " + strings.ToUpper(role[:1]) + role[1:] }

// A lab is one server or several, and what the users' connections complained
// of.
type lab struct {
	tb    testing.TB
	url   string
	extra []nats.Option // of each connection

	domain string // by which candidates and observers name the bucket's account

	mu         sync.Mutex
	violations []error
}

// startLab starts servers whose users have the rights of the tables, but for
// what lacks leaves to a role.
func startLab(tb testing.TB, nodes int, kind string, lacks map[string][]right) *lab {
	tb.Helper()
	users := []*server.User{natslab.Admin()}
	users[0].Username = "root" // what no role may do is arranged by this one
	for _, role := range documentedRoles(tb) {
		all, less := lacks[role]
		if !less {
			all = rights(tb, role, kind)
		}
		users = append(users, user(role, all))
	}
	if nodes == 1 {
		return &lab{tb: tb, url: natslab.Start(tb, natslab.Users(users...)).URL()}
	}
	return &lab{tb: tb, url: natslab.StartCluster(tb, nodes, natslab.Users(users...)).URL()}
}

// connect returns a connection of a role, with a separate inbox prefix.
func (l *lab) connect(role string, opts ...nats.Option) *nats.Conn {
	l.tb.Helper()
	return natslab.Connect(l.tb, l.url, append(l.options(role), opts...)...)
}

func (l *lab) options(role string) []nats.Option {
	password := role
	if role == "root" {
		password = "admin"
	}
	return append([]nats.Option{
		nats.UserInfo(role, password),
		nats.CustomInboxPrefix("_INBOX_" + role),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.complain(err) }),
	}, l.extra...)
}

func (l *lab) complain(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, err)
}

// complaints returns what the server denied so far, or what was wrong
// otherwise.
func (l *lab) complaints() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.violations)
}

// makeBucket has a user make the bucket.
func makeBucket(tb testing.TB, nc *nats.Conn, kind string) {
	tb.Helper()
	js := natslab.JetStream(tb, nc)
	natslab.Eventually(tb, "bucket made", func(ctx context.Context) error {
		return createBucket(ctx, js, kind)
	})
}

func createBucket(ctx context.Context, js jetstream.JetStream, kind string) error {
	if kind == republishing {
		return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket})
	}
	_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket})
	return err
}

// A member is a candidate and its notes.
type member struct {
	leader.Election
	tb    testing.TB
	id    string
	moved chan struct{}

	mu       sync.Mutex
	notes    []leader.Note
	renewals int
	reason   leader.Reason // why the latest term ended
}

// stand returns a candidate that was not started yet.
func stand(tb testing.TB, nc *nats.Conn, id string, tweaks ...func(*leader.ElectionConfig)) *member {
	tb.Helper()
	m := &member{tb: tb, id: id, moved: make(chan struct{}, 1)}
	cfg := leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: short, HeartbeatInterval: short / 6,
		AcquireGrace: leader.GraceOff, // the bucket is the test's own, and there was none before
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	cfg.Hooks = leader.Hooks{
		Transition: func(t leader.Transition) {
			m.note(func() {
				if t.From == leader.StateLeader {
					m.reason = t.Reason
				}
			})
		},
		Note: func(n leader.Note) { m.note(func() { m.notes = append(m.notes, n) }) },
		Call: func(c leader.Call) {
			m.note(func() {
				if c.Kind == "renew" && c.Err == nil {
					m.renewals++
				}
			})
		},
	}
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m.Election = e
	tb.Cleanup(func() {
		//nolint:usetesting // the test's own context has ended
		_ = m.StopWithContext(context.Background(), leader.StopOptions{WaitForDemote: true, Timeout: natslab.Patience})
	})
	return m
}

func ttl(d time.Duration) func(*leader.ElectionConfig) {
	return func(c *leader.ElectionConfig) { c.TTL, c.HeartbeatInterval = d, min(d/6, 200*time.Millisecond) }
}

// join starts a candidate.
func join(tb testing.TB, nc *nats.Conn, id string, tweaks ...func(*leader.ElectionConfig)) *member {
	tb.Helper()
	m := stand(tb, nc, id, tweaks...)
	if err := m.Start(tb.Context()); err != nil {
		tb.Fatalf("starting %s: %v", id, err)
	}
	return m
}

func (m *member) note(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	select {
	case m.moved <- struct{}{}:
	default:
	}
}

// await waits until the condition holds.
func (m *member) await(what string, cond func() bool) {
	m.tb.Helper()
	natslab.Await(natslab.Within(m.tb), m.tb, m.id+" "+what, m.moved, cond, func() string {
		return fmt.Sprintf("%+v\n%+v", m.Status(), m.noted())
	})
}

func (m *member) leads() {
	m.tb.Helper()
	m.await("leads", m.IsLeader)
}

func (m *member) follows(l *member) {
	m.tb.Helper()
	m.await("follows "+l.id, func() bool {
		s := m.Status()
		return s.State == leader.StateFollower && s.LeaderID == l.id
	})
}

// renews waits for so many renewals from now on.
func (m *member) renews(n int) {
	m.tb.Helper()
	goal := m.renewed() + n
	m.await("renews", func() bool { return m.renewed() >= goal })
}

// renewed is how many renewals were acknowledged so far.
func (m *member) renewed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewals
}

// says waits for a note of a kind that holds a text.
func (m *member) says(kind, text string) {
	m.tb.Helper()
	m.await(fmt.Sprintf("a note %s with %q", kind, text), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.ContainsFunc(m.notes, func(n leader.Note) bool { return n.Kind == kind && strings.Contains(n.Text, text) })
	})
}

func (m *member) noted() []leader.Note {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notes)
}

func (m *member) lost() leader.Reason {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reason
}

// hears waits until the member knows who leads, be it that itself does.
func (m *member) hears() {
	m.tb.Helper()
	m.await("hears who leads", func() bool { return m.LeaderID() != "" })
}

// succeeds makes the member lead: the other resigns, as often as it takes. On a
// busy machine a short lease may run out before its leader gets the request to
// resign, and a candidate that has resigned may win again.
func (m *member) succeeds(other *member) {
	m.tb.Helper()
	for !m.IsLeader() {
		m.await("or "+other.id+" leads", func() bool { return m.IsLeader() || other.IsLeader() })
		if m.IsLeader() {
			return
		}
		if err := other.Resign(natslab.Within(m.tb)); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			m.tb.Fatalf("%s resigns: %v", other.id, err)
		}
	}
}

func (m *member) resign() {
	m.tb.Helper()
	if err := m.Resign(natslab.Within(m.tb)); err != nil {
		m.tb.Fatalf("%s resigns: %v", m.id, err)
	}
}

// crash ends the candidate without a release, as far as the others can see.
func (m *member) crash() {
	m.tb.Helper()
	if err := m.StopWithContext(natslab.Within(m.tb), leader.StopOptions{WaitForDemote: true}); err != nil {
		m.tb.Fatal(err)
	}
}

// A watcher is an observer and what it saw.
type watcher struct {
	tb   testing.TB
	seen chan observation
}

type observation struct {
	info     leader.LeaderInfo
	err      error
	complete bool // all that there is has been seen
}

// observe follows the group by leader.Observe.
func observe(tb testing.TB, nc *nats.Conn) *watcher {
	tb.Helper()
	return follow(tb, func(ctx context.Context, see func(observation) bool) {
		leader.Observe(ctx, nc, bucket, group)(told(see))
	})
}

// observeWith follows the group on a store with the given options.
func observeWith(tb testing.TB, nc *nats.Conn, opts natsstore.Options) *watcher {
	tb.Helper()
	st := openStore(tb, nc, opts)
	return follow(tb, func(ctx context.Context, see func(observation) bool) {
		leader.ObserveWithStore(ctx, st, group)(told(see))
	})
}

func told(see func(observation) bool) func(leader.LeaderInfo, error) bool {
	return func(info leader.LeaderInfo, err error) bool { return see(observation{info: info, err: err}) }
}

// view follows the groups of a pattern as the commands do that show them to
// others: with what is paused, and by a store that watches the whole bucket if
// that is the pattern.
func view(tb testing.TB, nc *nats.Conn, pattern string) *watcher {
	tb.Helper()
	st := openStore(tb, nc, natsstore.Options{WatchWholeBucket: pattern == ">"})
	return follow(tb, func(ctx context.Context, see func(observation) bool) {
		if pattern == ">" {
			stop, err := st.WatchPattern(ctx, inspect.ControlKey(">"), func(store.Entry) {}, func(error) {})
			if err != nil {
				see(observation{err: err})
				return
			}
			defer stop()
		}
		err := leader.ObserveFuncWithStore(ctx, st, pattern, leader.Observer{
			Leader:  func(info leader.LeaderInfo) { see(observation{info: info}) },
			Present: func() { see(observation{complete: true}) },
			Failed:  func(err error) { see(observation{err: err}) },
		})
		if err != nil {
			see(observation{err: err})
		}
	})
}

func follow(tb testing.TB, run func(context.Context, func(observation) bool)) *watcher {
	tb.Helper()
	w := &watcher{tb: tb, seen: make(chan observation)}
	//nolint:usetesting // ended by the cleanup, which waits
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		run(ctx, func(o observation) bool {
			select {
			case w.seen <- o:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	tb.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

// sees waits for something and returns it.
func (w *watcher) sees(what string, ok func(observation) bool) observation {
	w.tb.Helper()
	limit := natslab.Within(w.tb)
	var last observation
	for {
		select {
		case last = <-w.seen:
			if ok(last) {
				return last
			}
		case <-limit.Done():
			w.tb.Fatalf("the observer never saw %s; last %+v", what, last)
		}
	}
}

func (w *watcher) seesLeader(id string) leader.LeaderInfo {
	w.tb.Helper()
	return w.sees("leader "+id, func(s observation) bool { return s.err == nil && s.info.ID == id }).info
}

func openStore(tb testing.TB, nc *nats.Conn, opts natsstore.Options) *natsstore.Store {
	tb.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = natslab.Patience
	}
	s, err := natsstore.New(nc, bucket, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// stepDown asks the leader to step down, and does not wait for that.
func stepDown(ctx context.Context, s store.Store, by string) error {
	c, err := leader.NewControlWithStore(s, by)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.File(ctx, leader.Request{Op: leader.OpStepDown, Group: group, Why: "maintenance"})
	return err
}
