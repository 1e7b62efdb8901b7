package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
)

// A verdict is what bucket check prints as JSON.
type verdict struct {
	Bucket   string   `json:"bucket"`
	Suitable bool     `json:"suitable"`
	Settings settings `json:"settings"`
	Findings []found  `json:"findings"`
}

func TestBucketIsMadeOnceAndExplained(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	out, stderr := l.run(0, "bucket", "create", "fresh")
	if !strings.Contains(stderr, `"fresh" is made`) {
		t.Errorf("stderr %q", stderr)
	}
	checkCells(t, out, [][]string{
		{"SETTING", "VALUE", "WHY"},
		{"bucket", "fresh", "one serves any number of groups"},
		{"replicas", "1", "three survive the loss of one server"},
		{"storage", "file", "memory forgets leaders at a restart"},
		{"expiry", "none", "those who watch judge a lease, and no server's wall clock"},
		{"size limit", "none", "a full bucket refuses renewals"},
		{"rollups", "refused", "one header would erase every key"},
		{"purges", "refused", "likewise"},
		{"deletions", "refused", "a record would read as an earlier one"},
		{"direct gets", "allowed", "reads need a right for one key, and not for all"},
		{"republished to", "leader.fresh.>", "watches cost the servers nothing"},
		{"first sequence", "TERM", "terms continue above those of a bucket that was deleted"},
	})
	again, stderr := l.run(0, "bucket", "create", "-b", "fresh", "--replicas", "3")
	if again != out || !strings.Contains(stderr, "left as it is") || !strings.Contains(stderr, "nats stream edit KV_fresh --replicas 3") {
		t.Errorf("stdout %q, stderr %q", again, stderr)
	}
}

// Of two that differ one would be left out without a word, and what is done to
// a group be done in another bucket than was meant.
func TestTwoBucketsOfOneCommandLineAreRefused(t *testing.T) {
	t.Parallel()
	const store = "nats://127.0.0.1:1/leaders" // where nobody listens
	for _, c := range []struct {
		args, env, say string
	}{
		{"pause g --yes -b zork", "LEADER_STORE=" + store, `--store: names the bucket "leaders", and --bucket names another: "zork"`},
		{"ls -b zork --store " + store, "", `and --bucket names another: "zork"`},
		{"ls -b leaders --store nats://127.0.0.1:1/votes", "", `and --bucket names another: "leaders"`}, // the default, if typed
		{"ls -b zork --store " + store, "LEADER_BUCKET=zork", `and --bucket names another: "zork"`},
		{"campaign g -b zork --store " + store, "", `and --bucket names another: "zork"`},
		{"bucket check -b zork --store " + store, "", `and --bucket names another: "zork"`},
		{"ls -b zork --store redis://127.0.0.1:1", "", "--bucket: is one of NATS, and --store names a store elsewhere"},
		{"pause g --yes -b zork", "LEADER_STORE=redis://127.0.0.1:1", "--bucket: is one of NATS"},
		{"bucket create foo -b bar", "", `bucket "foo": --bucket names another: "bar"`},
		{"bucket create zork --store " + store, "", `bucket "zork": --store names another: "leaders"`},
		{"bucket check zork", "LEADER_STORE=" + store, `bucket "zork": --store names another: "leaders"`},
	} {
		code, _, stderr := runProgram(t, []string{c.env}, append(strings.Fields(c.args), "--timeout", "1s")...)
		if code != 2 || !strings.Contains(stderr, c.say) {
			t.Errorf("%s %s: exit status %d, stderr %q", c.env, c.args, code, stderr)
		}
	}
	// What the environment says for all commands gives way, and one name is no
	// two.
	for _, c := range []struct{ args, env string }{
		{"ls --store " + store, "LEADER_BUCKET=zork"},
		{"ls -b leaders --store " + store, ""},
		{"ls -b zork --store nats://127.0.0.1:1", ""},
		{"bucket check leaders -b leaders --store " + store, ""},
		{"bucket check zork --server nats://127.0.0.1:1", "LEADER_BUCKET=votes"},
	} {
		code, _, stderr := runProgram(t, []string{c.env}, append(strings.Fields(c.args), "--timeout", "1s")...)
		if code == 0 || code == 2 || !strings.Contains(stderr, "127.0.0.1:1") {
			t.Errorf("%s %s: exit status %d, stderr %q", c.env, c.args, code, stderr)
		}
	}
	// --dev uses no store that the environment names.
	code, out, stderr := runProgram(t, []string{"LEADER_STORE=" + store}, "bucket", "create", "--dev", "-b", "zork", "-o", "json", "--timeout", "60s")
	if code != 0 || !strings.Contains(out, `"bucket": "zork"`) {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
}

func TestBucketCheckSaysWhatIsUnsafeAndHowToChangeIt(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	var v verdict
	out, _ := l.run(0, "bucket", "check", "--strict", "-o", "json")
	decodeStrictly(t, out, &v)
	if !v.Suitable || v.Findings[0].Status != finding.OK {
		t.Errorf("%+v", v)
	}
	if _, err := l.js.CreateKeyValue(l.within(), jetstream.KeyValueConfig{Bucket: "plain", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	l.run(0, "bucket", "check", "plain")
	out, _ = l.run(1, "bucket", "check", "plain", "--strict", "-o", "json")
	v = verdict{}
	decodeStrictly(t, out, &v)
	named(t, v.Findings)
	for i, want := range []string{"--max-age 0s", "--max-age 0s", "--no-allow-rollup --deny-purge"} {
		if f := v.Findings[i]; f.Status != finding.Warn || f.Fix != "nats stream edit KV_plain "+want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	out, _ = l.run(5, "bucket", "check", "plain", "--ttl", "2m")
	if !strings.HasPrefix(out, "fail") || !strings.Contains(out, "before a lease of 2m0s ends") {
		t.Errorf("%s", out)
	}
	out, stderr := l.run(5, "bucket", "check", "missing")
	if out != "" || !strings.Contains(stderr, "leader bucket create missing") {
		t.Errorf("stdout %q, stderr %q", out, stderr)
	}
	for _, args := range [][]string{{"create", "a b"}, {"check", "a.b"}, {"create", "--replicas", "2"}, {"create", "--max-bytes", "-1"}} {
		l.run(2, append([]string{"bucket"}, args...)...)
	}
}
