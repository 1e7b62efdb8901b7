package etcdstore_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// examine checks a store by the client, for leases of this length. It does so
// again while a server that is not down has not answered: Check gives each a
// second, for which a machine may stall.
func examine(t *testing.T, client *clientv3.Client, ttl time.Duration, down ...string) (store.Report, error) {
	t.Helper()
	s, ctx := open(t, client, etcdstore.Options{}), trial.Within(t)
	late := func(warning string) bool {
		return strings.Contains(warning, "did not answer") &&
			!slices.ContainsFunc(down, func(url string) bool { return strings.Contains(warning, url) })
	}
	for {
		r, err := s.Check(ctx, store.CheckRequest{TTL: ttl, HeartbeatInterval: ttl / 4, Key: "g", Reads: []string{"_ctl.g"}})
		if err != nil || !slices.ContainsFunc(r.Warnings, late) {
			return r, err
		}
	}
}

// warned fails the test unless each of the words appears in a warning, and
// there are no more warnings than words.
func warned(t *testing.T, r store.Report, err error, words ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(r.Warnings, "\n")
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("no warning contains %q: %q", w, r.Warnings)
		}
	}
	if len(r.Warnings) != len(words) {
		t.Errorf("%d warnings, want %d: %q", len(r.Warnings), len(words), r.Warnings)
	}
	if r.Forgetful || r.Expires || r.Age != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCheckOfASingleServer(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	node := cluster.Nodes[0]
	r, err := examine(t, cluster.Client(t), 100*time.Millisecond)
	warned(t, r, err)
	answer, err := cluster.Client(t).Get(trial.Within(t), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || answer.Count != 0 {
		t.Errorf("Check wrote: %v, %v", answer, err)
	}

	other := etcdlab.Start(t, 1)
	_, err = examine(t, etcdlab.Client(t, []string{node.URL(), other.Nodes[0].URL()}), time.Minute)
	trial.Outcome(t, err, store.Permanent, "different clusters", node.URL(), other.Nodes[0].URL())

	other.Kill()
	r, err = examine(t, etcdlab.Client(t, []string{node.URL(), other.Nodes[0].URL()}), time.Minute, other.Nodes[0].URL())
	warned(t, r, err, "did not answer")

	for _, c := range []struct {
		alarm pb.AlarmType
		words []string
	}{
		{pb.AlarmType_NOSPACE, []string{"NOSPACE", "takes no writes", "disarm"}},
		{pb.AlarmType_CORRUPT, []string{"CORRUPT", "replace the member", "disarm"}},
	} {
		client := cluster.Client(t)
		status, err := client.Status(trial.Within(t), node.URL())
		if err != nil {
			t.Fatal(err)
		}
		raise := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: c.alarm}
		if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(trial.Within(t), raise); err != nil {
			t.Fatal(err)
		}
		_, err = examine(t, client, time.Minute)
		trial.Outcome(t, err, store.Permanent, c.words...)
		_, err = open(t, client, etcdstore.Options{}).CompareAndSwap(trial.Within(t), store.Write{Key: "g"})
		trial.Outcome(t, err, store.Permanent)
		if _, err := client.AlarmDisarm(trial.Within(t), &clientv3.AlarmMember{MemberID: status.Header.MemberId, Alarm: c.alarm}); err != nil {
			t.Fatal(err)
		}
		r, err := examine(t, client, time.Minute)
		warned(t, r, err)
	}
}

// How much room the same keys take differs from run to run, so the limit
// follows the database and not the other way round.
func TestCheckWarnsOfADatabaseThatIsAlmostFull(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	client := cluster.Client(t)
	for i := range 8 {
		if _, err := client.Put(trial.Within(t), strings.Repeat("x", i+1), string(make([]byte, 1<<20))); err != nil {
			t.Fatal(err)
		}
	}
	node := cluster.Nodes[0]
	if _, err := client.Defragment(trial.Within(t), node.URL()); err != nil { // writes out what was put
		t.Fatal(err)
	}
	status, err := client.Status(trial.Within(t), node.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range []struct {
		percent int64
		words   []string
	}{{80, nil}, {95, []string{"bytes"}}} {
		cluster.Kill()
		node.Flags("--quota-backend-bytes", strconv.FormatInt(status.DbSize*100/full.percent, 10))
		cluster.Run()
		// By a new client: an earlier one may wait before it connects again.
		r, err := examine(t, cluster.Client(t), time.Minute)
		warned(t, r, err, full.words...)
	}
}

func TestCheckOfAPair(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 2)
	r, err := examine(t, cluster.Client(t), time.Minute)
	warned(t, r, err, "Use an odd number")
	r, err = examine(t, cluster.Client(t), time.Second)
	warned(t, r, err, "Use an odd number", "A lease of 1s may end while etcd changes its own leader")
	cluster.Nodes[1].Kill()
	s := open(t, etcdlab.Client(t, cluster.URLs()[:1]), etcdstore.Options{})
	_, err = s.Check(trial.Brief(t), store.CheckRequest{TTL: time.Minute, Key: "g"})
	trial.Outcome(t, err, store.Transient)
	// A server that knows of no leader refuses a write at once, and does not
	// keep it for one that may come.
	natslab.Eventually(t, "a write is refused for want of a leader", func(ctx context.Context) error {
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "g"})
		if store.Classify(err) != store.Transient || !strings.Contains(err.Error(), "no leader") {
			return err
		}
		return nil
	})
}

func TestALearnerIsWarnedOf(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	learner := cluster.Learner()
	r, err := examine(t, etcdlab.Client(t, []string{cluster.Nodes[0].URL(), learner.URL()}), time.Minute)
	warned(t, r, err, "is a learner")
	s := open(t, etcdlab.Client(t, []string{learner.URL()}), etcdstore.Options{})
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "g"})
	trial.Outcome(t, err, store.Transient, "learner")
	_, err = s.Check(trial.Within(t), store.CheckRequest{TTL: time.Minute})
	trial.Outcome(t, err, store.Transient, "learner")
}
