package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/bucket"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
)

// A verdict is what bucket check prints as JSON.
type verdict struct {
	Bucket   string            `json:"bucket"`
	Suitable bool              `json:"suitable"`
	Settings bucket.Settings   `json:"settings"`
	Findings []finding.Finding `json:"findings"`
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
