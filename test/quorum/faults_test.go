package quorum_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A member is a server in a separate process.
type member struct {
	*natslab.Process
	bucket string
}

// open gives the connections of candidates a user whose rights can be changed.
const (
	open   = `accounts { all { jetstream: enabled, users: [{user: all, password: all}, {user: candidate, password: candidate}] } }, no_auth_user: all`
	denied = `accounts { all { jetstream: enabled, users: [{user: all, password: all}, {user: candidate, password: candidate, permissions: { publish: { deny: ["$KV.>"] } } }] } }, no_auth_user: all`
)

// newMembers starts three processes that know nothing of each other, with a
// bucket in each.
func newMembers(tb testing.TB) (all []*member) {
	tb.Helper()
	name := fmt.Sprint("q", buckets.Add(1))
	for range 3 {
		m := &member{natslab.StartProcesses(tb, 1, open).Nodes[0], name}
		ensure(tb, m.connect(tb), name)
		all = append(all, m)
	}
	return all
}

func (m *member) connect(tb testing.TB) *nats.Conn {
	tb.Helper()
	return natslab.Connect(tb, m.URL(), nats.RetryOnFailedConnect(true))
}

func urls(members []*member) (all []string) {
	for _, m := range members {
		all = append(all, m.URL())
	}
	return all
}

// A way is the relays between one candidate and the members.
type way []*natslab.Relay

func newWay(tb testing.TB, members []*member) (w way) {
	tb.Helper()
	for _, m := range members {
		w = append(w, natslab.NewRelay(tb, m.Addr()))
	}
	return w
}

func (w way) urls() (urls []string) {
	for _, r := range w {
		urls = append(urls, r.URL())
	}
	return urls
}

// newCandidates starts three candidates, each behind relays of its own.
func newCandidates(tb testing.TB, members []*member, ttl, heartbeat time.Duration) (*group, []way) {
	tb.Helper()
	g := newGroup(tb)
	var ways []way
	for i := range 3 {
		w := newWay(tb, members)
		g.join(openAt(tb, members[0].bucket, w.urls(), nats.UserInfo("candidate", "candidate")), fmt.Sprint("c", i), ttl, heartbeat)
		ways = append(ways, w)
	}
	return g, ways
}

// rejoined waits until a member has memory and misses no write but one that is
// on its way, as the candidate sees it.
func rejoined(tb testing.TB, c *candidate, member int) {
	tb.Helper()
	natslab.Eventually(tb, "the member takes part again", func(ctx context.Context) error {
		states, err := c.st.Inspect(ctx, "g")
		if err != nil {
			return err
		}
		if m := states[member]; m.Err != nil || !m.Memory || m.Lag > 1 {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})
}

// renews waits for so many renewals of the leader, or the end of its term.
func (g *group) renews(l *candidate, n int) {
	g.tb.Helper()
	before := l.count("renew ok")
	g.await("renewals", func() bool { return l.count("renew ok") >= before+n || !l.IsLeader() })
}

// TestLeaderOutlivesEachFaultOfAMember has one member fail while a candidate
// leads, in each way, and each member in turn.
func TestLeaderOutlivesEachFaultOfAMember(t *testing.T) {
	t.Parallel()
	members := newMembers(t)
	g, ways := newCandidates(t, members, *lease, min(*lease/4, 100*time.Millisecond))
	relays := func(member int, do func(*natslab.Relay)) {
		for _, w := range ways {
			do(w[member])
		}
	}
	resumed := func(i int) { relays(i, func(r *natslab.Relay) { r.Resume() }) }
	for n, fault := range []struct {
		name       string
		begin, end func(member int)
	}{
		{"killed", func(i int) { members[i].Kill() }, func(i int) { members[i].Run() }},
		{"stopped", func(i int) { members[i].Signal(syscall.SIGSTOP) }, func(i int) { members[i].Signal(syscall.SIGCONT) }},
		{"cut off", func(i int) { relays(i, func(r *natslab.Relay) { r.Cut() }) }, resumed},
		{"unreachable", func(i int) { relays(i, func(r *natslab.Relay) { r.Hold(natslab.ToServer, natslab.ToClient) }) }, resumed},
		{"its answers lost", func(i int) { relays(i, func(r *natslab.Relay) { r.Hold(natslab.ToClient) }) }, func(i int) {
			relays(i, func(r *natslab.Relay) { r.Drop() })
			resumed(i)
		}},
		{"slow", func(i int) {
			relays(i, func(r *natslab.Relay) { r.Delay(time.Second, natslab.ToServer, natslab.ToClient) })
		}, resumed},
		{"rights withdrawn", func(i int) { members[i].Configure(denied) }, func(i int) { members[i].Configure(open) }},
		{"full", func(i int) { members[i].limit(t, 1) }, func(i int) { members[i].limit(t, -1) }},
		{"key deleted", func(i int) { members[i].remove(t, "g") }, func(int) {}},
	} {
		l, i := g.leader(), n%3
		fault.begin(i)
		g.renews(l, 3)
		fault.end(i)
		rejoined(t, l, i)
		if lost := l.losses(); len(lost) > 0 {
			t.Fatalf("%s: the leader lost its term: %v\n%s", fault.name, lost, strings.Join(l.slow, "\n"))
		}
	}
}

// limit sets how many bytes the member's bucket may have.
func (m *member) limit(tb testing.TB, bytes int64) {
	tb.Helper()
	js := natslab.JetStream(tb, m.connect(tb))
	natslab.Eventually(tb, "the limit of the bucket is set", func(ctx context.Context) error {
		s, err := js.Stream(ctx, "KV_"+m.bucket)
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		cfg.MaxBytes = bytes
		_, err = js.UpdateStream(ctx, cfg)
		return err
	})
}

// remove deletes a key in the member alone, as operators' tools do. Its bucket
// does not permit a purge.
func (m *member) remove(tb testing.TB, key string) {
	tb.Helper()
	js := natslab.JetStream(tb, m.connect(tb))
	natslab.Eventually(tb, "the key is deleted", func(ctx context.Context) error {
		kv, err := js.KeyValue(ctx, m.bucket)
		if err != nil {
			return err
		}
		return kv.Delete(ctx, key)
	})
}

// TestKeyDeletedInAMajorityEndsTheTerm deletes the group's record in two members
// and in three. The quorum has then forgotten who leads. Terms grow all the same,
// and the lookout sees no two leaders.
func TestKeyDeletedInAMajorityEndsTheTerm(t *testing.T) {
	t.Parallel()
	members := newMembers(t)
	g, _ := newCandidates(t, members, time.Second, 250*time.Millisecond)
	for n := 2; n <= 3; n++ {
		l := g.leader()
		before := l.Status().Term
		for _, m := range members[:n] {
			m.remove(t, "g")
		}
		g.await("a later term", func() bool {
			return slices.ContainsFunc(g.all, func(c *candidate) bool { return c.IsLeader() && c.Status().Term > before })
		})
		for i := range members {
			rejoined(t, g.leader(), i)
		}
	}
}

// TestCandidatesThatReachDifferentMajorities parts the candidates: each reaches
// two members, and no two candidates reach the same two. The lookout sees no two
// leaders, and the lead can be handed on.
func TestCandidatesThatReachDifferentMajorities(t *testing.T) {
	t.Parallel()
	members := newMembers(t)
	g, ways := newCandidates(t, members, time.Second, 250*time.Millisecond)
	g.leader()
	for i, w := range ways {
		w[i].Cut()
	}
	led := map[string]bool{}
	for range 6 {
		l := g.leader()
		led[l.id] = true
		before := l.count("renew ok")
		g.await("renewals, or a later term", func() bool { return l.count("renew ok") >= before+3 || !l.IsLeader() })
		_ = l.Resign(natslab.Within(t)) // the term may have ended
	}
	t.Logf("led: %v", led)
	for i, w := range ways {
		w[i].Resume()
	}
	for i := range members {
		rejoined(t, g.leader(), i)
	}
}

// TestMemberThatReturnsOlderIsRepaired returns a member from a copy of its files
// that is some writes old, as a restored backup does. That is outside what a
// quorum promises: until the next write the member may vote for what it had
// forgotten. The test shows that the next write repairs it.
func TestMemberThatReturnsOlderIsRepaired(t *testing.T) {
	t.Parallel()
	members := newMembers(t)
	g, _ := newCandidates(t, members, 2*time.Minute, 100*time.Millisecond)
	l, m, copied := g.leader(), members[2], t.TempDir()
	g.renews(l, 1)
	rejoined(t, l, 2)
	m.Kill()
	if err := os.CopyFS(copied, os.DirFS(m.StoreDir)); err != nil {
		t.Fatal(err)
	}
	m.Run()
	rejoined(t, l, 2)
	g.renews(l, 3)
	m.Kill()
	if err := os.RemoveAll(m.StoreDir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(m.StoreDir, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	m.Run()
	rejoined(t, l, 2)
	g.renews(l, 1)
	// Without another member: the repaired one has the newest write.
	members[0].Kill()
	g.renews(l, 1)
	if lost := l.losses(); len(lost) > 0 {
		t.Errorf("the leader lost its term: %v", lost)
	}
	members[0].Run()
}
