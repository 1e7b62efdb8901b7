package elections_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// candidateRights are the rights that a candidate of group g needs in a bucket
// named b that the library made, according to the documentation of natsstore.
func candidateRights() (publish, subscribe []string) {
	return []string{"$KV.b.g", "$JS.API.DIRECT.GET.KV_b.$KV.b.g", "$JS.API.DIRECT.GET.KV_b.$KV.b._ctl.g", "$JS.API.STREAM.INFO.KV_b"},
		[]string{"leader.b.g", "leader.b._ctl.g", "_INBOX.>"}
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
