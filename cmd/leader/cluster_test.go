package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
)

// What bucket create prints as JSON, as its help documents it.
type settings struct {
	Bucket    string  `json:"bucket"`
	Stream    string  `json:"stream"`
	Created   bool    `json:"created"`
	Replicas  int     `json:"replicas"`
	Storage   string  `json:"storage"`
	Cluster   string  `json:"cluster"`
	MaxBytes  int64   `json:"max_bytes"`
	FirstSeq  uint64  `json:"first_sequence"`
	Republish string  `json:"republish"`
	Rollups   bool    `json:"rollups"`
	Purges    bool    `json:"purges"`
	Deletes   bool    `json:"deletions"`
	Direct    bool    `json:"direct_gets"`
	MaxAge    float64 `json:"max_age_seconds"`
}

// A user is the command in the hands of somebody, whom the flags name.
type user struct {
	t     *testing.T
	flags []string
}

// userOf is a user of a server, whose password is the name.
func userOf(t *testing.T, url, name string) user {
	t.Helper()
	return user{t, []string{"--server", url, "--user", name, "--password", name, "--inbox-prefix", "_INBOX_" + name, "--timeout", "30s"}}
}

func (u user) try(args ...string) (code int, stdout, stderr string) {
	u.t.Helper()
	return runProgram(u.t, nil, append(args, u.flags...)...)
}

// run is try of what must have the exit status.
func (u user) run(want int, args ...string) (stdout, stderr string) {
	u.t.Helper()
	code, out, errs := u.try(args...)
	if code != want {
		u.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

// json is run of what prints JSON, of which no field may be unknown.
func (u user) json(want int, v any, args ...string) {
	u.t.Helper()
	out, _ := u.run(want, append(args, "-o", "json")...)
	decodeStrictly(u.t, out, v)
}

// becomesFine waits until the bucket has no weakness. Its replicas are not
// current for a while after it is made. When it gets more of them it has no
// leader for a moment.
func (u user) becomesFine(bucket string) {
	u.t.Helper()
	for limit := within(u.t); ; {
		code, out, _ := u.try("bucket", "check", bucket, "--strict")
		if code == 0 {
			return
		}
		if code > 1 && !strings.Contains(out, "has no leader among its servers") || limit.Err() != nil {
			u.t.Fatalf("exit status %d\n%s", code, out)
		}
	}
}

func TestCommandsWorkOnAClusterOfThree(t *testing.T) {
	t.Parallel()
	cluster := devtest.StartCluster(t)
	u := user{t, []string{"--server", cluster.URL(), "--timeout", "30s"}}
	var made settings
	u.json(0, &made, "bucket", "create", labBucket)
	if !made.Created || made.Replicas != 3 || made.Storage != "file" || made.Cluster == "" || made.Rollups || made.Purges || made.Deletes {
		t.Errorf("made %+v", made)
	}
	u.json(0, &made, "bucket", "create", labBucket)
	if made.Created || made.Replicas != 3 {
		t.Errorf("made again %+v", made)
	}
	u.becomesFine(labBucket)
	l := enter(t, cluster.URL())
	u.run(0, "history", "enable")
	if s, err := l.js.Stream(l.within(), "LEADER_HISTORY_"+labBucket); err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Errorf("a history without the bucket's replicas: %v", err)
	}

	first := l.stand(steered, "a", l.answering()).Term()
	enter(t, cluster.URL()).stand(steered, "b", l.answering())
	var r steer.Result
	u.json(0, &r, "step-down", steered, "--yes", "--why", "test")
	if r.From == nil || r.From.ID != "a" || r.To == nil || r.To.ID != "b" || r.Outcome != "done" || r.GapMS == nil {
		t.Errorf("step-down: %+v", r)
	}
	u.readsTwo(first)

	r = steer.Result{}
	u.json(0, &r, "transfer", steered, "--to", "a", "--yes")
	if r.To == nil || r.To.ID != "a" || r.Outcome != "done" {
		t.Errorf("transfer: %+v", r)
	}
	r = steer.Result{}
	u.json(0, &r, "pause", steered, "--yes")
	if r.To != nil || r.From == nil || r.From.ID != "a" || r.Outcome != "done" {
		t.Errorf("pause: %+v", r)
	}
	var e examination
	u.json(0, &e, "doctor", "--role", "candidate", "--role", "operator", "--ttl", "10m")
	if f := e.of(t, "paused"); f.Status != finding.Warn || f.Fix != "leader resume "+steered {
		t.Errorf("doctor: %+v", f)
	}
	for _, name := range []string{"connection", "version", "jetstream", "bucket", "clock", "round-trip", "candidate", "observer", "operator", "admin"} {
		if f := e.of(t, name); f.Status != finding.OK {
			t.Errorf("doctor: %+v", f)
		}
	}
	r = steer.Result{}
	u.json(0, &r, "resume", steered, "--yes")
	if r.To == nil || r.Outcome != "done" {
		t.Errorf("resume: %+v", r)
	}
	u.checkSingle(l)
}

// readsTwo checks what is read of a group that a led first and b leads now.
func (u user) readsTwo(first leader.Term) {
	u.t.Helper()
	l := &readLab{t: u.t}
	var past read.Past
	l.until("the history of a hand-over", func() error {
		past = read.Past{}
		u.json(0, &past, "history", steered)
		if len(past.Terms) != 2 || past.Terms[1].Began.IsZero() {
			return fmt.Errorf("%+v", past)
		}
		return nil
	})
	if past.Terms[0].Leader != "a" || past.Terms[1].Leader != "b" {
		u.t.Errorf("%+v", past)
	}
	if out, _ := u.run(0, "history", steered, "--at", past.Terms[0].Began.Format("2006-01-02T15:04:05.999999999Z07:00")); !strings.HasPrefix(out, "a led "+steered) {
		u.t.Error(out)
	}
	if out, _ := u.run(0, "ls"); !strings.Contains(out, "b ") || !strings.Contains(out, "stepped-down") {
		u.t.Error(out)
	}
	if out, _ := u.run(0, "watch", "-n", "1", ">"); !strings.Contains(out, "present      b ") {
		u.t.Error(out)
	}
	// The subscription of a candidate may be on its way to the server that is
	// asked.
	var d read.Detail
	l.until("both answer the roll call", func() error {
		d = read.Detail{}
		u.json(0, &d, "get", steered)
		if len(d.Candidates) != 2 {
			return errors.New(fmt.Sprint(d.Candidates))
		}
		return nil
	})
	if d.Leader != "b" || d.Candidates[0].State != leader.StateFollower || d.Candidates[1].State != leader.StateLeader {
		u.t.Errorf("%+v", d)
	}
	if out, _ := u.run(1, "token", "verify", steered, "--term", strconv.FormatUint(first.Number, 10)); !strings.HasPrefix(out, "stale") {
		u.t.Error(out)
	}
}

// checkSingle checks that a bucket of one replica is said to be weak in a
// cluster, and what is said to mend that.
func (u user) checkSingle(l *readLab) {
	u.t.Helper()
	var made settings
	u.json(0, &made, "bucket", "create", "single", "--replicas", "1")
	var v verdict
	u.json(1, &v, "bucket", "check", "single", "--strict")
	f := examination{Findings: v.Findings}.of(u.t, "bucket")
	if made.Replicas != 1 || f.Status != finding.Warn || f.Fix != "nats stream edit KV_single --replicas 3" {
		u.t.Errorf("made %+v, found %+v", made, f)
	}
	info, err := l.js.Stream(l.within(), "KV_single")
	if err != nil {
		u.t.Fatal(err)
	}
	cfg := info.CachedInfo().Config
	cfg.Replicas = 3
	if _, err := l.js.UpdateStream(l.within(), cfg); err != nil {
		u.t.Fatal(err)
	}
	u.becomesFine("single")
}
