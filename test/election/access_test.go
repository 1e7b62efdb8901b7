package election_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// refused starts a candidate that cannot, and checks that the error is a
// permanent one that tells what to do. The candidate may then be started again.
func refused(t *testing.T, m *member, words ...string) {
	t.Helper()
	err := m.Start(natslab.Within(t))
	if err == nil {
		t.Fatal("Start succeeded")
	}
	if store.Classify(err) != store.Permanent {
		t.Errorf("the error is %v: %v", store.Classify(err), err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func TestStartWithoutItsBucketSaysHowToMakeIt(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	g := newGroup(t, "nowhere")
	a := g.candidate(nc, "a", func(c *leader.ElectionConfig) { c.BucketAutoCreate = false })
	refused(t, a, "nowhere", "BucketAutoCreate", "leader bucket create --bucket nowhere")
	ensure(t, nc, natsstore.BucketConfig{Bucket: "nowhere"})
	a.start()
	g.await("a leads", a.IsLeader)
}

func TestStartRefusesABucketThatExpiresLeases(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: "b", TTL: short})
	g := newGroup(t, "b")
	refused(t, g.candidate(nc, "a"), "expires", "without TTL")
}

func TestStartWithoutAServerWaitsForIt(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	g := newGroup(t, "b")
	srv.Stop()
	natslab.Eventually(t, "the connection is lost", func(context.Context) error {
		if nc.IsConnected() {
			return nats.ErrConnectionClosed
		}
		return nil
	})
	a := g.join(nc, "a")
	srv.Run()
	g.await("a leads", a.IsLeader)
}

// candidateRights are what the documentation of natsstore says a candidate of
// group g needs in a bucket of ours named b.
func candidateRights() (publish, subscribe []string) {
	return []string{"$KV.b.g", "$JS.API.DIRECT.GET.KV_b.$KV.b.g", "$JS.API.DIRECT.GET.KV_b.$KV.b._ctl.g", "$JS.API.STREAM.INFO.KV_b"},
		[]string{"leader.b.g", "leader.b._ctl.g", "_INBOX.>"}
}

func TestCandidateNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	pub, sub := candidateRights()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("cand", pub, sub)))
	ensure(t, srv.Connect(t, nats.UserInfo("admin", "admin")), natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t, nats.UserInfo("cand", "cand")), "a")
	g.leader()
	b := g.join(srv.Connect(t, nats.UserInfo("cand", "cand")), "b")
	b.follows(a)
	g.handover(a, b)
	srv.DropClients()
	g.handover(b, a)
}

// Without the right to write its record a candidate is told so at once, with
// the right that it lacks, and may be started again when it was granted.
func TestStartWithoutTheRightToWriteNamesTheRight(t *testing.T) {
	t.Parallel()
	pub, sub := candidateRights()
	users := func(pub []string) natslab.Option {
		return natslab.Users(natslab.Admin(), natslab.User("cand", pub, sub))
	}
	var options *server.Options
	srv := natslab.Start(t, users(pub[1:]), capture(&options))
	ensure(t, srv.Connect(t, nats.UserInfo("admin", "admin")), natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	a := g.candidate(srv.Connect(t, nats.UserInfo("cand", "cand")), "a", ttl(short))
	if err := a.Start(natslab.Within(t)); store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), "may not publish to $KV.b.g") {
		t.Errorf("Start: %v", err)
	}
	grant(srv, options, users(pub))
	a.start()
	g.await("a leads", a.IsLeader)
}

// A leader that loses its right to write stops in time, and another leads.
func TestLeaderThatMayNoLongerWriteIsSucceeded(t *testing.T) {
	t.Parallel()
	pub, sub := candidateRights()
	both := func(first []string) natslab.Option {
		return natslab.Users(natslab.Admin(), natslab.User("first", first, sub), natslab.User("second", pub, sub))
	}
	var options *server.Options
	srv := natslab.Start(t, both(pub), capture(&options))
	ensure(t, srv.Connect(t, nats.UserInfo("admin", "admin")), natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t, nats.UserInfo("first", "first")), "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t, nats.UserInfo("second", "second")), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	a.succeed()
	grant(srv, options, both(pub[1:]))
	g.await("b leads", b.IsLeader)
	a.follows(b)
	grant(srv, options, both(pub))
	a.succeed()
}

// grant restarts the server with other rights. (A reload would do, but in
// nats-server 2.15.2 it races with direct gets: stream.go, getDirectRequest.)
func grant(srv *natslab.Server, options *server.Options, opt natslab.Option) {
	opt(options)
	srv.Restart()
}

// capture keeps the options that a server is started with.
func capture(options **server.Options) natslab.Option {
	return func(o *server.Options) { *options = o }
}
