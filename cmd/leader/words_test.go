package main

import (
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// internals are words of the library's own, which say nothing to who has never
// seen its source.
var internals = regexp.MustCompile(`BucketAutoCreate|InstanceID|HeartbeatInterval|permanent failure|transient failure|deadline exceeded|invalid configuration|usage:`)

// A mistake is a line, without the name of the program, its exit status, and
// what stderr has to say.
type mistake struct {
	line string
	want int
	says []string
}

// judge runs each line beside the lab's server.
func judge(t *testing.T, l *readLab, mistakes []mistake) {
	t.Helper()
	for _, c := range mistakes {
		code, _, stderr := runProgram(t, []string{"NATS_URL=" + l.url}, strings.Fields(c.line)...)
		if code != c.want {
			t.Errorf("leader %s: exit status %d, want %d: %s", c.line, code, c.want, stderr)
		}
		if word := internals.FindString(stderr); word != "" {
			t.Errorf("leader %s says %q: %s", c.line, word, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stderr, want) {
				t.Errorf("leader %s: no %q in %q", c.line, want, stderr)
			}
		}
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, "remote") || strings.Contains(line, "secret") {
				t.Errorf("leader %s says too much: %q", c.line, line)
			}
			if !strings.HasPrefix(line, "leader: ") {
				t.Errorf("leader %s: a line that does not say whose it is: %q", c.line, line)
			}
		}
	}
}

// Each line is a mistake of its own kind. The status is of the documented ones,
// and the words are those of the command line.
func TestMistakesHaveTheirStatusAndTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	var lc net.ListenConfig
	deaf, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	silent := deaf.Addr().String()
	judge(t, l, []mistake{
		{"ls -b b..d", 2, []string{`--bucket "b..d": must be 1 to 255`}},
		{"get g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"history g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"history enable -b b..d", 2, []string{`--bucket "b..d"`}},
		{"watch --advisories -b b..d", 2, []string{`--bucket "b..d"`}},
		{"token verify g --term 1 -b b..d", 2, []string{`--bucket "b..d"`}},
		{"step-down g -y -b b..d", 2, []string{`--bucket "b..d"`}},
		{"bucket create b..d", 2, []string{`bucket "b..d": must be 1 to 255`}},
		{"bucket check b..d", 2, []string{`bucket "b..d"`}},
		{"doctor -b b..d", 2, []string{`--bucket "b..d"`}},
		{"campaign g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"campaign g --ttl 1ms", 2, []string{`--ttl 1ms: must be from 50ms`}},
		{"campaign g --ttl 3s --heartbeat 2s", 2, []string{`--ttl 3s: must be at least 3 × --heartbeat (2s)`}},
		{"campaign g --program-version v! --check-interval 1s --check true", 2, []string{`--program-version "v!": must be`}},
		{"campaign a..b", 2, []string{`group "a..b": must be`}},
		{"demo --ttl 1ms", 2, []string{"--ttl 1ms: must be from"}},
		{"step-down g", 2, []string{"--yes: is required"}},
		{"ls -b missing", 5, []string{`bucket "missing" does not exist`, "leader bucket create"}},
		{"watch -b missing", 5, []string{`bucket "missing" does not exist`}},
		{"history enable -b missing", 5, []string{"leader bucket create missing"}},
		{"history g", 5, []string{"leader history enable"}},
		{"bucket create three --replicas 3", 5, []string{"--replicas 3", "non-clustered"}},
		{"ls -s nats://127.0.0.1:1", 1, []string{"nats://127.0.0.1:1", "--server", "--dev"}},
		{"doctor -s nats://127.0.0.1:1", 1, []string{"--server", "--dev"}},
		{"step-down g -y -s nats://127.0.0.1:1", 1, []string{"--server", "--dev"}},
		{"ls --timeout 1s -s nats://" + silent, 6, []string{silent, "timeout"}},
		{"ls --store foo://x", 2, []string{`--store: the store's URL has the scheme "foo"`}},
		{"dash --allow-control --by= --http 127.0.0.1:0", 2, []string{`--by "": must be 1 to 256 bytes`}},
		{"agent --listen nowhere", 2, []string{`--listen "nowhere": must be HOST:PORT`}},
	})
}

// A bucket that expires its records is judged for a lease, even where none is
// named: without one it would pass, and elections refuse it.
func TestBucketCheckJudgesALeaseThatIsNotNamed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for name, ttl := range map[string]time.Duration{"short": 2 * time.Second, "longer": 5 * time.Second} {
		if _, err := l.js.CreateKeyValue(l.within(), jetstream.KeyValueConfig{Bucket: name, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := l.run(5, "bucket", "check", "short")
	if !strings.Contains(out, "before a lease of 3s ends") {
		t.Errorf("%s", out)
	}
	out, _ = l.run(0, "bucket", "check", "longer")
	if !strings.Contains(out, "leases of at most 5s") || !strings.Contains(out, "--ttl") {
		t.Errorf("%s", out)
	}
	l.run(5, "bucket", "check", "longer", "--ttl", "6s")
}
