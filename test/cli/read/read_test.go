package read_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	bucket = "leaders"
	group  = "jobs.eu"
)

// program is the path of the built command.
var program string

func TestMain(m *testing.M) { os.Exit(built.Run(m, &program)) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*natslab.Patience)
	t.Cleanup(cancel)
	return ctx
}

// start starts a candidate whose TTL no test waits for, and returns when it
// leads or follows.
func start(t *testing.T, nc *nats.Conn, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: 20 * time.Second, HeartbeatInterval: time.Second,
		BucketAutoCreate: true, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
		Hooks: leader.JoinHooks(rollcall.Hooks(nc), advisory.Hooks(nc, advisory.Options{})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(within(t))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	for info := range e.Observe(within(t)) {
		if info.ID != "" {
			return e
		}
	}
	t.Fatal("nobody leads")
	return nil
}

func TestCommandsThatReadWorkOnAClusterOfThree(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	nc := cluster.Connect(t)
	if err := natsstore.EnsureBucket(within(t), natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	on := func(want int, args ...string) string {
		t.Helper()
		code, out, stderr := built.Try(within(t), t, program, append(args, "--server", cluster.URL(), "--timeout", "30s")...)
		if code != want {
			t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, out, stderr)
		}
		return out
	}
	on(0, "history", "enable")
	js := natslab.JetStream(t, nc)
	if s, err := js.Stream(within(t), "LEADER_HISTORY_"+bucket); err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Errorf("a history without the bucket's replicas: %v", err)
	}

	a := start(t, nc, "a")
	first := a.Term()
	start(t, cluster.Connect(t), "b")
	if err := a.Transfer(within(t), "b"); err != nil {
		t.Fatal(err)
	}
	checkTwo(t, on, first)
}

// checkTwo checks what is read of a group that a led first and b leads now.
func checkTwo(t *testing.T, on func(want int, args ...string) string, first leader.Term) {
	t.Helper()
	var past struct {
		Terms []struct{ Leader, Began string }
	}
	natslab.Eventually(t, "the history of a hand-over", func(context.Context) error {
		_ = json.Unmarshal([]byte(on(0, "history", group, "-o", "json")), &past)
		if len(past.Terms) != 2 || past.Terms[1].Began == "" {
			return fmt.Errorf("%+v", past)
		}
		return nil
	})
	if past.Terms[0].Leader != "a" || past.Terms[1].Leader != "b" {
		t.Errorf("%+v", past)
	}
	if out := on(0, "history", group, "--at", past.Terms[0].Began); !strings.HasPrefix(out, "a led "+group) {
		t.Errorf("%s", out)
	}
	if out := on(0, "ls"); !strings.Contains(out, "b ") || !strings.Contains(out, "transferred") {
		t.Errorf("%s", out)
	}
	if out := on(0, "watch", "-n", "1", "jobs.>"); !strings.Contains(out, "present      b ") {
		t.Errorf("%s", out)
	}
	var detail struct {
		Leader     string
		Candidates []struct{ Instance, State string }
	}
	// The subscription of a candidate may be on its way to the server that is
	// asked.
	natslab.Eventually(t, "the roll call", func(context.Context) error {
		if err := json.Unmarshal([]byte(on(0, "get", group, "-o", "json")), &detail); err != nil || len(detail.Candidates) != 2 {
			return fmt.Errorf("%+v %w", detail, err)
		}
		return nil
	})
	if detail.Leader != "b" || detail.Candidates[0].State != leader.StateFollower || detail.Candidates[1].State != leader.StateLeader {
		t.Errorf("%+v", detail)
	}
	if out := on(1, "token", "verify", group, "--term", strconv.FormatUint(first.Number, 10)); !strings.HasPrefix(out, "stale") {
		t.Errorf("%s", out)
	}
}

// Who may only observe still sees who leads; what asks more is left out, and
// said to be.
func TestAnObserversRightsSuffice(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(),
		natslab.User("observer",
			[]string{"$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.DIRECT.GET.KV_" + bucket, "$JS.API.DIRECT.GET.KV_" + bucket + ".>"},
			[]string{"_INBOX_observer.>", "leader." + bucket + ".>"}),
		&server.User{Username: "nobody", Password: "nobody", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_nobody.>"}},
		}},
	))
	start(t, srv.Connect(t, nats.UserInfo("admin", "admin")), "a")
	as := func(user string, args ...string) (int, string, string) {
		t.Helper()
		return built.Try(within(t), t, program, append(args, "--server", srv.URL(), "--user", user, "--password", user, "--inbox-prefix", "_INBOX_"+user)...)
	}
	if code, out, stderr := as("observer", "ls", "-o", "name"); code != 0 || out != group+"\n" || stderr != "" {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	code, out, stderr := as("observer", "get", group)
	if code != 0 || !strings.Contains(out, "No candidate answered") || !strings.Contains(stderr, "leader-rollcall."+bucket+"."+group) {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := as("observer", "watch", "-n", "1"); code != 0 || !strings.Contains(out, " a ") {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := as("nobody", "ls", "--timeout", "3s"); code != 5 && code != 6 || out != "" || stderr == "" {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
}
