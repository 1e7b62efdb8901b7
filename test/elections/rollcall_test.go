package elections_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// standInRoll starts a candidate that answers.
func standInRoll(t *testing.T, nc *nats.Conn, id string, priority int) leader.Election {
	t.Helper()
	return stand(t, nc, id, func(c *leader.ElectionConfig) {
		c.TTL, c.Priority, c.Version, c.Address, c.Hooks = 20*time.Second, priority, "1.2.3", id+":80", rollcall.Hooks(nc)
	})
}

func roll(t *testing.T, nc *nats.Conn) []rollcall.Candidate {
	t.Helper()
	all, err := rollcall.All(natslab.Within(t), nc, leaders, jobs)
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
	a := standInRoll(t, cluster.Connect(t), "a", 1)
	term := awaitLeader(t, a).Term
	b := standInRoll(t, cluster.Connect(t), "b", 2)
	awaitLeader(t, b)
	asker := cluster.Connect(t)
	// The subscription of b may be on its way to the server that is asked.
	natslab.Eventually(t, "two answers", func(ctx context.Context) error {
		if all, err := rollcall.All(ctx, asker, leaders, jobs); len(all) != 2 {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	checkRoll(t, roll(t, asker), term)
	if err := errors.Join(a.Stop(), b.Stop()); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "silence after the stop", func(ctx context.Context) error {
		if all, err := rollcall.All(ctx, asker, leaders, jobs); err != nil || len(all) != 0 {
			return errors.Join(errors.New("somebody answers"), err)
		}
		return nil
	})
}

func TestRollCallAnswerNeverGoesIntoTheBucket(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	a := standInRoll(t, nc, "a", 1)
	awaitLeader(t, a)
	st, err := natsstore.New(nc, leaders, natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const bait = "$KV." + leaders + ".bait"
	if err := nc.PublishRequest(rollcall.Subject(leaders, jobs), bait, nil); err != nil {
		t.Fatal(err)
	}
	roll(t, nc) // questions are answered in order: the one before has been looked at
	if e, err := st.Get(natslab.Within(t), "bait"); err != nil || e.Revision != 0 {
		t.Errorf("revision %d, %v: %s", e.Revision, err, e.Value)
	}
}

// A candidate needs the rights that the package documentation names, and no
// other.
func TestRollCallNeedsNoMoreThanTheResponseRight(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(),
		&server.User{Username: "candidate", Password: "candidate", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				"$KV." + leaders + "." + jobs, "$JS.API.STREAM.INFO.KV_" + leaders, "$JS.API.DIRECT.GET.KV_" + leaders + ".>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				"_INBOX_candidate.>", "leader." + leaders + ".>", rollcall.Subject(leaders, jobs),
			}},
			Response: &server.ResponsePermission{MaxMsgs: 1, Expires: 5 * time.Second},
		}},
		&server.User{Username: "asker", Password: "asker", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{rollcall.Subject(leaders, jobs)}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_asker.>"}},
		}},
	))
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if err := natsstore.EnsureBucket(natslab.Within(t), natslab.JetStream(t, admin), natsstore.BucketConfig{Bucket: leaders}); err != nil {
		t.Fatal(err)
	}
	a := standInRoll(t, srv.Connect(t, nats.UserInfo("candidate", "candidate"), nats.CustomInboxPrefix("_INBOX_candidate")), "a", 1)
	awaitLeader(t, a)
	all := roll(t, srv.Connect(t, nats.UserInfo("asker", "asker"), nats.CustomInboxPrefix("_INBOX_asker")))
	if len(all) != 1 || all[0].Instance != "a" || all[0].State != leader.StateLeader {
		t.Errorf("%+v", all)
	}
}

// A fickle election panics when it is asked.
type fickle struct{ leader.Election }

func (fickle) Status() leader.ElectionStatus { panic("boom") }

// An election is asked in a goroutine of the connection's, where a panic would
// take the program. It asks the store in turn, which may be of another's
// making.
func TestElectionThatPanicsDoesNotAnswerTheRollCall(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	stop, err := rollcall.Answer(nc, leader.ElectionConfig{Bucket: leaders, Group: jobs}, fickle{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if all, err := rollcall.All(natslab.Within(t), nc, leaders, jobs); !errors.Is(err, rollcall.ErrNoAnswer) || len(all) != 0 {
		t.Errorf("%v: %+v", err, all)
	}
}

// crowd answers in the place of that many candidates.
func crowd(t *testing.T, nc *nats.Conn, n int) {
	t.Helper()
	_, err := nc.Subscribe(rollcall.Subject(leaders, jobs), func(m *nats.Msg) {
		for i := range n {
			_ = nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":%q,"group":%q,"instance":"c%04d"}`, leaders, jobs, n-i)) // asked again
		}
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

// Otherwise a caller would take a thousand for the whole count.
func TestRollCallThatIsCutOffReportsIt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1000, 1001} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t)
			crowd(t, srv.Connect(t), n)
			asker := srv.Connect(t)
			// On a busy machine the answers may pause for too long.
			natslab.Eventually(t, "a thousand answers", func(ctx context.Context) error {
				all, err := rollcall.All(ctx, asker, leaders, jobs)
				switch more := errors.Is(err, nats.ErrMaxMessages); {
				case len(all) != 1000, more != (n > 1000), err != nil && !more:
					return errors.Join(fmt.Errorf("%d answers", len(all)), err)
				case !slices.IsSortedFunc(all, func(a, b rollcall.Candidate) int { return cmp.Compare(a.Instance, b.Instance) }):
					return errors.New("they are not in order")
				}
				return nil
			})
		})
	}
}
