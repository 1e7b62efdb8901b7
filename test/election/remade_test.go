package election_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// graceful leaves it to the candidate when to cool down, as programs do.
func graceful(c *leader.ElectionConfig) { c.AcquireGrace = leader.GraceAuto }

// A leader that cannot hear leads until its lease runs out. Meanwhile its
// bucket is deleted, and made again by a candidate that has never heard of
// either.
func TestNobodyLeadsBesideTheLeaderOfADeletedBucket(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	admin, cut, direct := srv.Connect(t), natslab.Connect(t, proxy.URL()), srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(cut, "a", ttl(lease))
	old := g.leader()
	if old != a {
		t.Fatal(old.id)
	}
	first := a.Term()
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	if err := natslab.JetStream(t, admin).DeleteStream(natslab.Within(t), "KV_b"); err != nil {
		t.Fatal(err)
	}
	b := g.join(direct, "b", ttl(lease), graceful)
	g.await("b has claimed the record", func() bool { return b.count("acquire ok") > 0 })
	g.await("b leads", b.IsLeader) // the group looks for two leaders all the while
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
	if w := strings.Join(b.noted(leader.NoteWarning), "\n"); !strings.Contains(w, "made less than a lease ago") {
		t.Errorf("warned of %q", w)
	}
}

// Only what is left of a lease is waited for.
func TestABucketThatIsOlderThanALeaseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	nc := srv.Connect(t)
	st, err := natsstore.New(nc, "b", natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	older(t, st, 2*short)
	g := newGroup(t, "b")
	a := g.over(st, "a", ttl(short), graceful)
	a.start()
	g.leader()
	// A machine that stalls may leave no time to ask for the age.
	if w := strings.Join(a.noted(leader.NoteWarning), "\n"); w != "" && !strings.Contains(w, "did not tell its age") {
		t.Errorf("warned of %q", w)
	}
}

// older waits until the bucket of st is older than d.
func older(tb testing.TB, st *natsstore.Store, d time.Duration) {
	tb.Helper()
	natslab.Eventually(tb, "the bucket is old enough", func(ctx context.Context) error {
		r, err := st.Check(ctx, store.CheckRequest{TTL: short})
		if err == nil && r.Age < d {
			err = fmt.Errorf("its age is %v", r.Age)
		}
		return err
	})
}
