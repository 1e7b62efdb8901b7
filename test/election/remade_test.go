package election_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
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
