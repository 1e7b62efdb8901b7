package read_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The rights that docs/operations.md gives to an observer of one group, and to
// one of all, in a bucket that republishes and in one of nats kv add.
const (
	readsInfo     = "$JS.API.STREAM.INFO.KV_"
	readsKey      = "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders." + group
	readsAll      = "$JS.API.DIRECT.GET.KV_leaders"
	hearsKey      = "leader.leaders." + group
	hearsAll      = "leader.leaders.>"
	consumesKey   = "$JS.API.CONSUMER.CREATE.KV_plain.*.$KV.plain." + group
	consumesAll   = "$JS.API.CONSUMER.CREATE.KV_plain.*.$KV.plain.>"
	readsPlainKey = "$JS.API.DIRECT.GET.KV_plain.$KV.plain." + group
	plain         = "plain"
)

// observers is a server with a bucket of each kind, in which a leads the group,
// and with users of the rights above.
func observers(t *testing.T) func(user, bucket string, args ...string) (int, string, string) {
	t.Helper()
	user := func(name string, publish, subscribe []string) *server.User {
		return natslab.User(name, publish, append(subscribe, "_INBOX_"+name+".>"))
	}
	srv := natslab.Start(t, natslab.Users(natslab.Admin(),
		user("one", []string{readsInfo + bucket, readsKey}, []string{hearsKey}),
		user("all", []string{readsInfo + bucket, readsAll, readsAll + ".>"}, []string{hearsAll}),
		user("plain-one", []string{readsInfo + plain, readsPlainKey, consumesKey}, nil),
		user("plain-all", []string{readsInfo + plain, consumesAll}, nil),
		user("one-uninformed", []string{readsKey}, []string{hearsKey}),
		user("all-uninformed", []string{readsAll, readsAll + ".>"}, []string{hearsAll}),
		user("one-hearing", []string{readsInfo + bucket}, []string{hearsKey}),
		user("all-hearing", []string{readsInfo + bucket}, []string{hearsAll}),
	))
	nc := srv.Connect(t, nats.UserInfo("admin", "admin"))
	js := natslab.JetStream(t, nc)
	if _, err := js.CreateKeyValue(within(t), jetstream.KeyValueConfig{Bucket: plain}); err != nil {
		t.Fatal(err)
	}
	if err := natsstore.EnsureBucket(within(t), js, natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	lead(t, nc, bucket)
	lead(t, nc, plain)
	return func(user, bucket string, args ...string) (int, string, string) {
		t.Helper()
		return built.Try(within(t), t, program, append(args, "--server", srv.URL(), "--bucket", bucket,
			"--user", user, "--password", user, "--inbox-prefix", "_INBOX_"+user, "--timeout", "30s")...)
	}
}

// lead has a candidate lead the group in a bucket, and returns when it does.
func lead(t *testing.T, nc *nats.Conn, bucket string) {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: "a", TTL: time.Minute, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
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
			return
		}
	}
	t.Fatal("nobody leads")
}

// internals are words by which programs tell errors apart.
var internals = regexp.MustCompile(`permanent failure|transient failure|deadline exceeded`)

// What doctor finds sufficient is sufficient, to look at one group and at all,
// and what it finds insufficient is.
func TestTheDocumentedRightsOfAnObserverSuffice(t *testing.T) {
	t.Parallel()
	as := observers(t)
	for _, c := range []struct {
		user, bucket, role string
		lines              []string
	}{
		{"one", bucket, "observer", []string{"get " + group, "ls " + group, "watch " + group + " -n 1"}},
		{"all", bucket, "viewer", []string{"get " + group, "ls", "ls jobs.>", "watch -n 1"}},
		{"plain-one", plain, "observer", []string{"get " + group, "ls " + group, "watch " + group + " -n 1"}},
		{"plain-all", plain, "viewer", []string{"get " + group, "ls", "watch -n 1"}},
	} {
		t.Run(c.user, func(t *testing.T) {
			t.Parallel() // what they may not ask, they wait for
			for _, line := range c.lines {
				code, out, stderr := as(c.user, c.bucket, strings.Fields(line)...)
				if code != 0 || !strings.Contains(out, group) || strings.Contains(stderr, "\ufffd") || internals.MatchString(stderr) {
					t.Errorf("leader %s: exit status %d\n%s%s", line, code, out, stderr)
				}
			}
			examine := []string{"doctor", "--group", group, "--ttl", "10m", "-o", "name", "--role"}
			if code, out, stderr := as(c.user, c.bucket, append(examine, c.role)...); code != 0 || strings.Contains(out, c.role) {
				t.Errorf("doctor: exit status %d\n%s%s", code, out, stderr)
			}
			_, out, stderr := as(c.user, c.bucket, examine[:5]...)
			if word := internals.FindString(out + stderr); word != "" {
				t.Errorf("doctor says %q:\n%s%s", word, out, stderr)
			}
			if c.role == "viewer" {
				return
			}
			if code, out, stderr := as(c.user, c.bucket, "ls"); code != 5 {
				t.Errorf("leader ls: exit status %d\n%s%s", code, out, stderr)
			}
			if code, out, stderr := as(c.user, c.bucket, append(examine, "viewer")...); code != 1 || !strings.Contains(out, "viewer") {
				t.Errorf("doctor: exit status %d\n%s%s", code, out, stderr)
			}
		})
	}
}

// What docs/operations.md says of observers who lack a right.
func TestAnObserverDoesWithoutARight(t *testing.T) {
	t.Parallel()
	as := observers(t)
	for user, lines := range map[string][]string{
		"one-uninformed": {"get " + group, "ls " + group, "watch " + group + " -n 1", "wait " + group},
		"all-uninformed": {"get " + group, "ls", "watch -n 1"},
		"one-hearing":    {"watch " + group + " -n 1", "wait " + group}, // the next renewal
		"all-hearing":    {"watch -n 1"},
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			for _, line := range lines {
				code, out, stderr := as(user, bucket, strings.Fields(line)...)
				if code != 0 || !strings.Contains(out, group) || internals.MatchString(stderr) {
					t.Errorf("leader %s: exit status %d\n%s%s", line, code, out, stderr)
				}
				if hears := strings.Contains(stderr, "hears of each with its next write"); hears != strings.HasSuffix(user, "hearing") {
					t.Errorf("leader %s: %s", line, stderr)
				}
			}
		})
	}
}
