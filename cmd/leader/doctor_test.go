package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
)

// An examination is what doctor prints as JSON.
type examination struct {
	Server   string  `json:"server"`
	Bucket   string  `json:"bucket"`
	Group    string  `json:"group"`
	Healthy  bool    `json:"healthy"`
	Findings []found `json:"findings"`
}

// A found is a finding, as its help documents it.
type found struct {
	Check  string         `json:"check"`
	Status finding.Status `json:"status"`
	Text   string         `json:"text"`
	Fix    string         `json:"fix"`
}

// named checks that the help of leader doctor names the check of each finding: a
// script picks them by it.
func named(t *testing.T, findings []found) {
	t.Helper()
	_, help, _ := runProgram(t, nil, "doctor", "--help")
	_, listed, _ := strings.Cut(help, "The checks are")
	listed, _, _ = strings.Cut(listed, ".")
	checks := strings.FieldsFunc(listed, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
	for _, f := range findings {
		if !slices.Contains(checks, f.Check) {
			t.Errorf("the help does not name the check of %+v", f)
		}
	}
}

// of returns the first finding of a check.
func (e examination) of(t *testing.T, check string) found {
	t.Helper()
	named(t, e.Findings)
	i := slices.IndexFunc(e.Findings, func(f found) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no finding of %s among %+v", check, e.Findings)
	}
	return e.Findings[i]
}

func TestDoctorExaminesTheSampleElections(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "doctor", "--dev", "--ttl", "10m", "-o", "json", "--timeout", "60s")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	var e examination
	decodeStrictly(t, out, &e)
	for check, want := range map[string]finding.Status{
		"connection": finding.OK, "version": finding.OK, "jetstream": finding.OK, "bucket": finding.OK, "replicas": finding.Info,
		"sync": finding.Info, "clock": finding.OK, "round-trip": finding.OK, "candidate": finding.OK, "paused": finding.Warn,
	} {
		if got := e.of(t, check).Status; got != want {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
	if !e.Healthy || e.Group != "billing" {
		t.Errorf("%+v", e)
	}
	code, out, _ = runProgram(t, nil, "doctor", "--dev", "--ttl", "10m", "--strict", "-o", "name", "--timeout", "60s")
	if code != 1 || out != "paused\n" {
		t.Errorf("exit status %d, stdout %q", code, out)
	}
}

func TestDoctorWritesNothing(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand(steered, "a")
	l.run(0, "pause", steered, "--yes", "--timeout", "60s") // so that nobody renews
	info := func() jetstream.StreamState {
		s, err := l.js.Stream(l.within(), "KV_"+labBucket)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State
	}
	before := info()
	for _, args := range [][]string{nil, {"--group", steered}, {"--group", "x.KV_y"}, {"--group", "new"}} {
		l.run(0, append([]string{"doctor", "--ttl", "10m", "--timeout", "60s"}, args...)...)
	}
	after := info()
	if after.LastSeq != before.LastSeq || after.Msgs != before.Msgs || after.Bytes != before.Bytes || after.Consumers != before.Consumers {
		t.Errorf("the bucket is %+v, before %+v", after, before)
	}
	for name := range l.js.StreamNames(l.within()).Name() {
		if name != "KV_"+labBucket {
			t.Errorf("a stream %s was made", name)
		}
	}
	if r, _ := l.steer(0, "resume", steered, "-y"); r.To == nil || r.To.ID != "a" {
		t.Errorf("%+v", r)
	}
}

func TestDoctorSaysWhatToMakeWhereNothingIs(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	out, _ := l.run(1, "doctor", "--bucket", "missing", "--ttl", "10m", "-o", "json", "--timeout", "60s")
	var e examination
	decodeStrictly(t, out, &e)
	f := e.of(t, "bucket")
	if e.Healthy || f.Status != finding.Fail || f.Fix != "leader bucket create missing" || e.of(t, "candidate").Status != finding.OK {
		t.Errorf("%+v", e)
	}
	for _, args := range [][]string{{"--ttl", "1ms"}, {"--heartbeat", "1h"}, {"--group", "a b"}, {"--rounds", "0"}, {"--monitor", "x"}, {"--role", "king"}} {
		l.run(2, append([]string{"doctor"}, args...)...)
	}
}
