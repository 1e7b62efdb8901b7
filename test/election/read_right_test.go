package election_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A candidate that may not read its record would wait for somebody else's
// write, and in a group of such candidates for ever.
func TestStartWithoutTheRightToReadNamesTheRight(t *testing.T) {
	t.Parallel()
	pub, sub := candidateRights()
	pub = append(pub[:1:1], pub[2:]...)
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("cand", pub, sub)))
	ensure(t, srv.Connect(t, nats.UserInfo("admin", "admin")), natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	refused(t, g.candidate(srv.Connect(t, nats.UserInfo("cand", "cand")), "a"), "may not publish to $JS.API.DIRECT.GET.KV_b.$KV.b.g")
}
