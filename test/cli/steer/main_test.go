package steer_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	bucket = "leaders"
	group  = "reports"
)

// program is the path of the built command.
var program string

func TestMain(m *testing.M) { os.Exit(built.Run(m, &program)) }

func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*natslab.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// A caller runs the program with flags that say where and as whom.
type caller struct {
	t     *testing.T
	flags []string
}

// as is the program in the hands of a user, whose password is the name.
func as(t *testing.T, url, user string) caller {
	t.Helper()
	return caller{t, []string{"--server", url, "--user", user, "--password", user, "--inbox-prefix", "_INBOX_" + user, "--timeout", "30s"}}
}

// try runs the program to its end.
func (c caller) try(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	return built.Try(within(c.t), c.t, program, append(args, c.flags...)...)
}

// run is try of what must have the exit status.
func (c caller) run(want int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	code, out, errs := c.try(args...)
	if code != want {
		c.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

// json runs the program and decodes what it prints, of which no field may be
// unknown.
func (c caller) json(want int, v any, args ...string) {
	c.t.Helper()
	out, _ := c.run(want, append(args, "-o", "json")...)
	c.decode(v, out, args)
}

func (c caller) decode(v any, out string, args []string) {
	c.t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		c.t.Fatalf("%v: %v in:\n%s", args, err, out)
	}
}

// vacate ends the record of a leader that lives.
func (c caller) vacate(v any) {
	c.t.Helper()
	args := []string{"vacate", group, "--yes", "--force", "-o", "json"}
	out, _ := c.undisturbed(0, args...)
	c.decode(v, out, args)
}

// undisturbed runs a program that writes the record of a leader that lives.
// What that one renews between the program's look and its write is left alone,
// as it should be, and the program looks once more.
func (c caller) undisturbed(want int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	for limit := within(c.t); ; {
		code, stdout, stderr := c.try(args...)
		if code == want {
			return stdout, stderr
		}
		if code != 1 || !strings.Contains(stderr, "was written meanwhile") || limit.Err() != nil {
			c.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
	}
}

// stand lets a candidate stand, whose TTL no test waits for, and returns when
// it leads or follows.
func stand(t *testing.T, nc *nats.Conn, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: time.Minute, HeartbeatInterval: time.Second, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
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
