package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
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

// A user who asks about one group wants to know whether it is led, and which
// candidates could lead it.
func TestDoctorLooksAtAGroup(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put("dead", `{"id":"gone","token":"t","ttl":1000,"term":7}`)
	l.until("the record is old", func() error {
		if all := l.listed("dead"); all[0].Leader != "" {
			return errors.New("not yet")
		}
		return nil
	})
	l.stand("led", "a", l.answering())
	l.stand("shy", "a") // it takes part in no roll call
	l.steer(0, "pause", "early", "-y", "--no-wait")
	for group, want := range map[string]struct {
		ttl    string
		code   int
		status finding.Status
		text   string
	}{
		"dead":  {"20s", 1, finding.Fail, `nobody leads group "dead": "gone" has not renewed since `},
		"led":   {"20s", 0, finding.OK, `"a" leads group "led" in term `},
		"shy":   {"20s", 0, finding.OK, `; no candidate answers the roll call, in which not all take part`},
		"other": {"20s", 0, finding.Info, `nobody has led group "other" yet`},
		"early": {"20s", 0, finding.Info, `nobody has led group "early" yet`},
	} {
		out, _ := l.run(want.code, "doctor", "--group", group, "--ttl", want.ttl, "-o", "json", "--timeout", "60s")
		var e examination
		decodeStrictly(t, out, &e)
		if f := e.of(t, "group"); f.Status != want.status || !strings.Contains(f.Text, want.text) {
			t.Errorf("%s: %+v", group, f)
		}
	}
	out, _ := l.run(0, "doctor", "--group", "led", "--ttl", "10m", "--timeout", "60s")
	if !strings.Contains(out, `the leader of group "led" has a TTL of 20s, and this examination goes by 10m0s`) || !strings.Contains(out, "1 answer the roll call") {
		t.Error(out)
	}
}

func TestABoundThatAnAccountDemandsIsAskedForByItsFlag(t *testing.T) {
	t.Parallel()
	srv := devtest.Start(t)
	srv.Limit(server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: 4 << 20, MaxStreams: -1, MaxConsumers: -1, MaxBytesRequired: true})
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"bucket create", 5, "--max-bytes"},
		{"bucket create --max-bytes 1000000", 0, ""},
		{"history enable", 5, "--max-bytes"},
		{"history enable --max-bytes 1048576", 0, ""},
	} {
		code, _, stderr := runProgram(t, nil, append(strings.Fields(c.line), "--server", srv.URL())...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: status %d: %s", c.line, code, stderr)
		}
	}
}

func TestDoctorAdvisesWhatToMakeWhereNothingIs(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	out, _ := l.run(1, "doctor", "--bucket", "missing", "--ttl", "10m", "-o", "json", "--timeout", "60s")
	var e examination
	decodeStrictly(t, out, &e)
	f := e.of(t, "bucket")
	if e.Healthy || f.Status != finding.Fail || f.Fix != "leader bucket create missing" {
		t.Errorf("%+v", e)
	}
	for _, role := range []string{"candidate", "viewer", "admin"} { // which nobody can play there
		if f := e.of(t, role); f.Status != finding.Info || !strings.HasPrefix(f.Text, "the user has the permissions of a") {
			t.Errorf("%+v", f)
		}
	}
	for _, args := range [][]string{{"--ttl", "1ms"}, {"--heartbeat", "1h"}, {"--group", "a b"}, {"--rounds", "0"}, {"--monitor", "x"}, {"--role", "king"}} {
		l.run(2, append([]string{"doctor"}, args...)...)
	}
}

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
		{"first sequence", "TERM", "terms continue above the terms of a deleted bucket"},
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
		{"ls -b zork --store redis://127.0.0.1:1", "", "--bucket: names a NATS bucket, and --store another store"},
		{"pause g --yes -b zork", "LEADER_STORE=redis://127.0.0.1:1", "--bucket: names a NATS bucket"},
		{"bucket create foo -b bar", "", `bucket "foo": --bucket names another: "bar"`},
		{"bucket create zork --store " + store, "", `bucket "zork": --store names another: "leaders"`},
		{"bucket check zork", "LEADER_STORE=" + store, `bucket "zork": --store names another: "leaders"`},
	} {
		code, _, stderr := runProgram(t, []string{c.env}, append(strings.Fields(c.args), "--timeout", "1s")...)
		if code != 2 || !strings.Contains(stderr, c.say) {
			t.Errorf("%s %s: exit status %d, stderr %q", c.env, c.args, code, stderr)
		}
	}
	// The environment's settings for all commands give way, and one name given
	// twice is not a conflict.
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

func TestBucketCheckReportsUnsafeSettingsAndRemedies(t *testing.T) {
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

// settings is what bucket create prints as JSON, as its help documents it.
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

// checkSingle checks that doctor calls a bucket of one replica weak in a
// cluster, and names the command that mends it.
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

// importing is a server where one account has the bucket, and another imports
// what a candidate of one group needs, as docs/operate/permissions.md has it.
const importing = `
accounts {
  LEADERS {
    jetstream: enabled
    users: [ { user: admin, password: admin } ]
    exports: [
      { service: "$JS.API.STREAM.INFO.KV_leaders" }
      { service: "$KV.leaders.jobs.eu" }
      { service: "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }
      { stream: "leader.leaders.jobs.eu" }
    ]
  }
  JOBS {
    users: [ { user: jobs, password: jobs } ]
    imports: [
      { service: { account: LEADERS, subject: "$JS.API.STREAM.INFO.KV_leaders" }, to: "$JS.leaders.API.STREAM.INFO.KV_leaders" }
      { service: { account: LEADERS, subject: "$KV.leaders.jobs.eu" }, to: "$JS.leaders.API.$KV.leaders.jobs.eu" }
      { service: { account: LEADERS, subject: "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }, to: "$JS.leaders.API.DIRECT.GET.KV_leaders.$KV.leaders.jobs.eu" }
      { stream: { account: LEADERS, subject: "leader.leaders.jobs.eu" } }
    ]
  }
}`

// bothWithJetStream is a server where one account reaches the JetStream of
// another under a prefix, and also has its own JetStream.
const bothWithJetStream = `
accounts {
  LEADERS {
    jetstream: enabled
    users: [ { user: admin, password: admin } ]
    exports: [ { service: "$JS.API.>", response: stream }, { service: "$KV.leaders.>" }, { stream: "leader.leaders.>" } ]
  }
  JOBS {
    jetstream: enabled
    users: [ { user: jobs, password: jobs } ]
    imports: [
      { service: { account: LEADERS, subject: "$JS.API.>" }, to: "LEADERS.API.>" }
      { service: { account: LEADERS, subject: "$KV.leaders.>" }, to: "LEADERS.API.$KV.leaders.>" }
      { stream: { account: LEADERS, subject: "leader.leaders.>" } }
    ]
  }
}`

// A candidate that ignored the prefix would lead in its own account's bucket,
// beside the leader in the other.
func TestTheAPIPrefixOfAContextLeadsToTheOtherAccount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(path, []byte(bothWithJetStream), 0o600); err != nil {
		t.Fatal(err)
	}
	url := devtest.Start(t, func(o *server.Options) {
		if err := o.ProcessConfigFile(path); err != nil {
			t.Error(err)
		}
	}).URL()
	home := t.TempDir()
	file := filepath.Join(home, "nats", "context", "there.json")
	text := fmt.Sprintf(`{"url": %q, "user": "jobs", "password": "jobs", "jetstream_api_prefix": "LEADERS.API"}`, url)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"XDG_CONFIG_HOME=" + home, "NATS_CONTEXT=there"}
	if code, _, stderr := execute(t, env, "run", "jobs", "--grace", "off", "--", "true"); code != 0 {
		t.Fatalf("run: exit status %d\n%s", code, stderr)
	}
	for _, args := range [][]string{{"ls"}, {"get", "jobs"}, {"pause", "jobs", "--yes"}, {"bucket", "check"}} {
		if code, out, stderr := execute(t, env, args...); code != 0 {
			t.Errorf("%v: exit status %d\n%s%s", args, code, out, stderr)
		}
	}
	if code, _, stderr := execute(t, env, "demo", "--context", "there"); code != 2 || !strings.Contains(stderr, "jetstream_api_prefix") {
		t.Errorf("demo: exit status %d\n%s", code, stderr)
	}
	for account, want := range map[string]bool{"admin": true, "jobs": false} {
		nc, err := nats.Connect(url, nats.UserInfo(account, account))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Stream(t.Context(), "KV_leaders"); (err == nil) != want {
			t.Errorf("the account of %s: %v; a bucket is to be there: %v", account, err, want)
		}
	}
}

// An account that imports a bucket does not have JetStream itself. Doctor must
// not ask it to enable JetStream where elections work.
func TestDoctorKnowsABucketThatIsImported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(path, []byte(importing), 0o600); err != nil {
		t.Fatal(err)
	}
	url := devtest.Start(t, func(o *server.Options) {
		if err := o.ProcessConfigFile(path); err != nil {
			t.Error(err)
		}
	}).URL()
	enter(t, url, nats.UserInfo("admin", "admin"))
	u := user{t, []string{"--server", url, "--user", "jobs", "--password", "jobs", "--js-domain", "leaders", "--timeout", "3s"}}
	for bucket, want := range map[string]struct {
		code      int
		says, not string
	}{
		labBucket: {0, "imports the API", "not enabled"},
		"none":    {1, "not enabled", "imports the API"},
	} {
		out, _ := u.run(want.code, "doctor", "--group", watchedGroup, "--ttl", "10m", "--bucket", bucket)
		if !strings.Contains(out, want.says) || strings.Contains(out, want.not) {
			t.Errorf("bucket %s:\n%s", bucket, out)
		}
	}
}

// Each command must report a server without JetStream in the same words, and
// immediately.
func TestEachCommandReportsAServerWithoutJetStream(t *testing.T) {
	t.Parallel()
	l := &readLab{t: t, url: devtest.Start(t, devtest.WithoutJetStream).URL()}
	for _, line := range []string{
		"ls", "get g", "watch", "wait g", "token verify g --term 1 --token t", "history show g", "history enable", "history disable --yes",
		"bucket create", "bucket check", "step-down g --yes", "pause g --yes", "vacate g --yes", "dash --http 127.0.0.1:0", "exporter --http 127.0.0.1:0",
	} {
		out, stderr := l.run(5, strings.Fields(line)...)
		if out != "" || !strings.Contains(stderr, "has no JetStream: start it with nats-server -js") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("leader %s: %q, %q", line, out, stderr)
		}
	}
	// A domain that is named may be in reach by an import, and come later.
	if _, stderr := l.run(1, "ls", "--js-domain", "hub"); strings.Contains(stderr, "start it with") {
		t.Errorf("in a domain: %s", stderr)
	}
	out, _ := l.run(1, "doctor", "--ttl", "10m", "-o", "json")
	var e examination
	decodeStrictly(t, out, &e)
	if f := e.of(t, "jetstream"); f.Status != finding.Fail || !strings.Contains(f.Fix, "enable it") {
		t.Errorf("%+v", f)
	}
	if bucket, trip := e.of(t, "bucket"), e.of(t, "round-trip"); bucket.Status != finding.Fail || trip.Status != finding.OK {
		t.Errorf("%+v, %+v", bucket, trip)
	}
}

// A leaf node without JetStream passes requests on to the domain of a hub.
// Behind a leaf node that has JetStream, the bucket is the hub domain's as
// well, and so are the subjects of the rights.
func TestBucketOfAnotherDomainIsReadSteeredAndExamined(t *testing.T) {
	t.Parallel()
	hub := devtest.Start(t, devtest.Domain("hub"), devtest.AcceptLeaves)
	near := user{t, []string{"--server", hub.URL(), "--timeout", "30s"}}
	far := func(leaf *devtest.Server) user {
		return user{t, []string{"--server", leaf.URL(), "--js-domain", "hub", "--timeout", "30s"}}
	}
	bare := far(devtest.Start(t, devtest.LeafOf(hub), devtest.WithoutJetStream))
	full := far(devtest.Start(t, devtest.LeafOf(hub), devtest.Domain("leaf")))
	var made, again settings
	full.json(0, &made, "bucket", "create", labBucket)
	near.json(0, &again, "bucket", "create", labBucket)
	if !made.Created || again.Created || made.FirstSeq != again.FirstSeq {
		t.Errorf("from afar %+v, from near %+v", made, again)
	}
	l := enter(t, hub.URL())
	l.stand(steered, "a")
	l.stand(steered, "b")
	if out, _ := bare.run(0, "ls", "-o", "name"); out != steered+"\n" {
		t.Errorf("%q", out)
	}
	var r steer.Result
	full.json(0, &r, "step-down", steered, "--yes")
	if r.From == nil || r.From.ID != "a" || r.To == nil || r.To.ID != "b" {
		t.Errorf("%+v", r)
	}
	var e examination
	full.json(0, &e, "doctor", "--ttl", "10m", "--role", "candidate", "--role", "operator", "--role", "observer", "--role", "admin")
	if f := e.of(t, "admin"); e.Group != steered || !strings.Contains(f.Text, "$JS.hub.API.STREAM.DELETE.KV_leaders") {
		t.Errorf("group %q, %+v", e.Group, f)
	}
}
