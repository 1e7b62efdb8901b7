package leader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The default settings of all tests, and what follows from them.
const (
	ttl       = 3 * time.Second
	heartbeat = time.Second
	trust     = ttl * 9 / 10  // TTL × (1 − ClockDrift)
	wait      = ttl * 11 / 10 // TTL × (1 + ClockDrift)
	jitter    = 10 * time.Millisecond
)

func config(id string) leader.ElectionConfig {
	return leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: ttl, HeartbeatInterval: heartbeat, DeleteOnStop: true,
	}
}

// candidate returns a candidate that was not started. It is stopped when the
// test ends.
func candidate(t *testing.T, st store.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

func start(t *testing.T, st store.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	return started(t, candidate(t, st, cfg))
}

func started(t *testing.T, e leader.Election) leader.Election {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for its first claim: who is started first, leads first
	return e
}

// network returns registers behind a network that has no faults until a test
// sets them.
func network(t *testing.T, policy faultstore.Policy) *faultstore.Faults {
	t.Helper()
	f := faultstore.New(faultstore.Options{Policy: policy})
	t.Cleanup(f.Close)
	return f
}

// contention is how long candidates wait at most for each other, at a vacancy or at
// a lease that ran out (docs/reference/protocol.md, The herd).
const contention = ttl / 20

// mustLead waits until nothing moves any more and demands that e and nobody
// else leads.
func mustLead(t *testing.T, e leader.Election, others ...leader.Election) {
	t.Helper()
	synctest.Wait()
	if !e.IsLeader() {
		time.Sleep(contention)
		synctest.Wait()
	}
	if !e.IsLeader() {
		t.Fatalf("does not lead: %v", status(e))
	}
	mustNotLead(t, others...)
}

func mustNotLead(t *testing.T, es ...leader.Election) {
	t.Helper()
	synctest.Wait()
	for _, e := range es {
		if e.IsLeader() {
			t.Fatalf("leads: %v", status(e))
		}
	}
}

func mustBe(t *testing.T, e leader.Election, state string) {
	t.Helper()
	synctest.Wait()
	if s := e.Status(); s.State != state {
		t.Fatalf("state %s, want %s: %v", s.State, state, status(e))
	}
}

func status(e leader.Election) string {
	s := e.Status()
	return fmt.Sprintf("%s (%s) since %v, leader %q, term %d, %s", s.State, s.Reason, s.LastTransition.Format("05.000"), s.LeaderID, s.Term, s.ConnectionStatus)
}

func halt(t *testing.T, es ...leader.Election) {
	t.Helper()
	for _, e := range es {
		if err := e.Stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
}

// A journal writes down what happens, with the virtual time since it was made.
type journal struct {
	begun time.Time
	mu    sync.Mutex
	lines []string
}

func newJournal() *journal { return &journal{begun: time.Now()} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// noteAt is note with the time in front.
func (j *journal) noteAt(format string, args ...any) {
	j.note("%v "+format, append([]any{time.Since(j.begun).Round(time.Millisecond)}, args...)...)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) count(line string) (n int) {
	for _, l := range j.all() {
		if l == line {
			n++
		}
	}
	return n
}

func (j *journal) demand(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := j.all(); !slices.Equal(got, want) {
		t.Fatalf("happened:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// stored reads the group's record.
func stored(t *testing.T, st store.Store) (e store.Entry, r record.Record) {
	t.Helper()
	e, err := st.Get(context.WithoutCancel(t.Context()), "g")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Value) > 0 {
		if err := json.Unmarshal(e.Value, &r); err != nil {
			t.Fatalf("%s: %v", e.Value, err)
		}
	}
	return e, r
}

// put writes a value with the compare-and-swap that everybody has to use.
func put(t *testing.T, st store.Store, key string, value any) {
	t.Helper()
	e, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: e.Revision, Value: b}); err != nil {
		t.Fatal(err)
	}
}

// A checked store answers a Check as the test sets it. It hides that it can
// watch.
type checked struct {
	store.Store
	mu     sync.Mutex
	err    error
	report store.Report
	hold   chan struct{} // if not nil, Check waits until it is closed
	n      int
}

func (c *checked) Check(context.Context, store.CheckRequest) (store.Report, error) {
	c.mu.Lock()
	hold := c.hold
	c.n++
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report, c.err
}

func (c *checked) repair() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = nil
}

func (c *checked) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A plain store can do no more than it must.
type plain struct{ store.Store }

func newPlain() plain { return plain{memstore.New()} }

// health is a HealthChecker that a test switches.
type health struct {
	mu    sync.Mutex
	check func(context.Context) bool
	n     int
}

func (h *health) Check(ctx context.Context) bool {
	h.mu.Lock()
	check := h.check
	h.n++
	h.mu.Unlock()
	return check == nil || check(ctx)
}

func (h *health) set(check func(context.Context) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.check = check
}

// lasting returns a context for one request.
func lasting(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
