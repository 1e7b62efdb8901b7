package rollcall_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	bucket = "leaders"
	group  = "jobs/eu.west"
)

// start starts a candidate whose TTL no test waits for.
func start(t *testing.T, nc *nats.Conn, id string, priority int) leader.Election {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: 20 * time.Second, HeartbeatInterval: time.Second,
		Priority: priority, Version: "1.2.3", Address: id + ":80",
		BucketAutoCreate: true, DeleteOnStop: true, Hooks: rollcall.Hooks(nc), AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

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

func roll(t *testing.T, nc *nats.Conn) []rollcall.Candidate {
	t.Helper()
	all, err := rollcall.All(natslab.Within(t), nc, bucket, group)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkRoll checks the answers of a, which leads, and b, which follows it.
func checkRoll(t *testing.T, all []rollcall.Candidate, term uint64) {
	t.Helper()
	if len(all) != 2 {
		t.Fatalf("%d candidates: %+v", len(all), all)
	}
	for i, state := range []string{leader.StateLeader, leader.StateFollower} {
		c, id := all[i], string(rune('a'+i))
		if c.Instance != id || c.State != state || c.Leader != "a" || c.Term != term || c.Address != id+":80" || c.Version != "1.2.3" {
			t.Errorf("%+v", c)
		}
		if c.Priority != i+1 || c.Connection != "CONNECTED" || c.Error != "" || c.Barred != "" || c.Since.IsZero() {
			t.Errorf("%+v", c)
		}
		if c.TrustLeft <= 0 || c.TrustLeft > 22_000 || c.Lag < 0 || c.Lag > 22_000 {
			t.Errorf("%d ms left, %d ms old", c.TrustLeft, c.Lag)
		}
	}
}

func TestCandidatesOfAClusterAnswerTheRollCall(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	a := start(t, cluster.Connect(t), "a", 1)
	term := awaitLeader(t, a).Term
	b := start(t, cluster.Connect(t), "b", 2)
	awaitLeader(t, b)
	asker := cluster.Connect(t)
	// The subscription of b may be on its way to the server that is asked.
	natslab.Eventually(t, "two answers", func(ctx context.Context) error {
		if all, err := rollcall.All(ctx, asker, bucket, group); len(all) != 2 {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	checkRoll(t, roll(t, asker), term)
	if err := errors.Join(a.Stop(), b.Stop()); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "silence after the stop", func(ctx context.Context) error {
		if all, err := rollcall.All(ctx, asker, bucket, group); err != nil || len(all) != 0 {
			return errors.Join(errors.New("somebody answers"), err)
		}
		return nil
	})
}

func TestAnswerNeverGoesIntoTheBucket(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	a := start(t, nc, "a", 1)
	awaitLeader(t, a)
	st, err := natsstore.New(nc, bucket, natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const bait = "$KV." + bucket + ".bait"
	if err := nc.PublishRequest(rollcall.Subject(bucket, group), bait, nil); err != nil {
		t.Fatal(err)
	}
	roll(t, nc) // questions are answered in order: the one before has been looked at
	if e, err := st.Get(natslab.Within(t), "bait"); err != nil || e.Revision != 0 {
		t.Errorf("revision %d, %v: %s", e.Revision, err, e.Value)
	}
}

// A candidate needs the rights that the package documentation names, and no
// other.
func TestResponseRightSuffices(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(),
		&server.User{Username: "candidate", Password: "candidate", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				"$KV." + bucket + "." + group, "$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.DIRECT.GET.KV_" + bucket + ".>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				"_INBOX_candidate.>", "leader." + bucket + ".>", rollcall.Subject(bucket, group),
			}},
			Response: &server.ResponsePermission{MaxMsgs: 1, Expires: 5 * time.Second},
		}},
		&server.User{Username: "asker", Password: "asker", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{rollcall.Subject(bucket, group)}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_asker.>"}},
		}},
	))
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if err := natsstore.EnsureBucket(natslab.Within(t), natslab.JetStream(t, admin), natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	a := start(t, srv.Connect(t, nats.UserInfo("candidate", "candidate"), nats.CustomInboxPrefix("_INBOX_candidate")), "a", 1)
	awaitLeader(t, a)
	all := roll(t, srv.Connect(t, nats.UserInfo("asker", "asker"), nats.CustomInboxPrefix("_INBOX_asker")))
	if len(all) != 1 || all[0].Instance != "a" || all[0].State != leader.StateLeader {
		t.Errorf("%+v", all)
	}
}
