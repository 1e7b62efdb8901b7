package steer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// What the program prints as JSON, as its help documents it.
type (
	person struct {
		ID      string `json:"id"`
		Term    uint64 `json:"term"`
		Address string `json:"address"`
	}
	result struct {
		Operation string   `json:"operation"`
		Group     string   `json:"group"`
		By        string   `json:"by"`
		Why       string   `json:"why"`
		Outcome   string   `json:"outcome"`
		From      *person  `json:"from"`
		To        *person  `json:"to"`
		Reason    string   `json:"reason"`
		DrainMS   *float64 `json:"drain_ms"`
		GapMS     *float64 `json:"gap_ms"`
	}
	settings struct {
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
	found struct {
		Check  string `json:"check"`
		Status string `json:"status"`
		Text   string `json:"text"`
		Fix    string `json:"fix"`
	}
	checked struct {
		Bucket   string   `json:"bucket"`
		Suitable bool     `json:"suitable"`
		Settings settings `json:"settings"`
		Findings []found  `json:"findings"`
	}
	examined struct {
		Server   string  `json:"server"`
		Bucket   string  `json:"bucket"`
		Group    string  `json:"group"`
		Healthy  bool    `json:"healthy"`
		Findings []found `json:"findings"`
	}
)

// of returns what a check found.
func of(t *testing.T, all []found, check string) found {
	t.Helper()
	i := slices.IndexFunc(all, func(f found) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no finding of %s among %+v", check, all)
	}
	return all[i]
}

func TestEverythingWorksOnAClusterOfThree(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3, natslab.Users(natslab.Admin()))
	c := as(t, cluster.URL(), "admin")
	var made settings
	c.json(0, &made, "bucket", "create", bucket)
	if !made.Created || made.Replicas != 3 || made.Storage != "file" || made.Cluster == "" || made.Rollups || made.Purges || made.Deletes {
		t.Errorf("made %+v", made)
	}
	c.json(0, &made, "bucket", "create", bucket)
	if made.Created || made.Replicas != 3 {
		t.Errorf("made again %+v", made)
	}
	becomesFine(t, c)
	nc := cluster.Connect(t, nats.UserInfo("admin", "admin"))
	stand(t, nc, "a")
	stand(t, nc, "b")
	var r result
	c.json(0, &r, "step-down", group, "--yes", "--why", "test")
	if r.From == nil || r.From.ID != "a" || r.To == nil || r.To.ID != "b" || r.Outcome != "done" || r.GapMS == nil {
		t.Errorf("step-down: %+v", r)
	}
	r = result{}
	c.json(0, &r, "transfer", group, "--to", "a", "--yes")
	if r.To == nil || r.To.ID != "a" || r.Outcome != "done" {
		t.Errorf("transfer: %+v", r)
	}
	r = result{}
	c.json(0, &r, "pause", group, "--yes")
	if r.To != nil || r.From == nil || r.From.ID != "a" || r.Outcome != "done" {
		t.Errorf("pause: %+v", r)
	}
	var e examined
	c.json(0, &e, "doctor", "--role", "candidate", "--role", "operator", "--ttl", "10m")
	if f := of(t, e.Findings, "paused"); f.Status != "warn" || f.Fix != "leader resume "+group {
		t.Errorf("doctor: %+v", f)
	}
	for _, name := range []string{"connection", "version", "jetstream", "bucket", "clock", "round-trip", "candidate", "observer", "operator", "admin"} {
		if f := of(t, e.Findings, name); f.Status != "ok" {
			t.Errorf("doctor: %+v", f)
		}
	}
	r = result{}
	c.json(0, &r, "resume", group, "--yes")
	if r.To == nil || r.Outcome != "done" {
		t.Errorf("resume: %+v", r)
	}
}

// becomesFine waits until the bucket has no weakness: its replicas are not
// current for a while after it is made, and when they become more they have no
// leader for a moment.
func becomesFine(t *testing.T, c caller) {
	t.Helper()
	ctx, out := within(t), ""
	for code := 1; code != 0; {
		if ctx.Err() != nil {
			t.Fatal(out)
		}
		if code, out, _ = c.try("bucket", "check", bucket, "--strict"); code > 1 && !strings.Contains(out, "has no leader among its servers") {
			t.Fatalf("exit status %d\n%s", code, out)
		}
	}
}

func TestBucketOfOneReplicaInAClusterIsWeak(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3, natslab.Users(natslab.Admin()))
	c := as(t, cluster.URL(), "admin")
	var made settings
	c.json(0, &made, "bucket", "create", bucket, "--replicas", "1")
	var check checked
	c.json(1, &check, "bucket", "check", bucket, "--strict")
	if f := of(t, check.Findings, "bucket"); made.Replicas != 1 || f.Status != "warn" || f.Fix != "nats stream edit KV_leaders --replicas 3" {
		t.Errorf("made %+v, found %+v", made, f)
	}
	// As the finding says.
	js := natslab.JetStream(t, cluster.Connect(t, nats.UserInfo("admin", "admin")))
	info, err := js.Stream(within(t), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := info.CachedInfo().Config
	cfg.Replicas = 3
	if _, err := js.UpdateStream(within(t), cfg); err != nil {
		t.Fatal(err)
	}
	becomesFine(t, c)
}

// restricted is a server whose users have the rights of one role each, in
// docs/operations.md.
func restricted(t *testing.T) *natslab.Server {
	t.Helper()
	user := func(name string, publish, subscribe []string) *server.User {
		return natslab.User(name, publish, append(subscribe, "_INBOX_"+name+".>"))
	}
	const read, ctl = "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.reports", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl.reports"
	const info = "$JS.API.STREAM.INFO.KV_leaders"
	srv := natslab.Start(t, natslab.Users(
		natslab.Admin(),
		user("candidate", []string{"$KV.leaders.reports", info, read, ctl, "leader-offer.leaders.reports"},
			[]string{"leader.leaders.reports", "leader.leaders._ctl.reports", "leader-offer.leaders.reports"}),
		user("observer", []string{info, read}, []string{"leader.leaders.reports"}),
		user("operator", []string{"$KV.leaders._ctl.reports", info, read, ctl}, []string{"leader.leaders.reports"}),
		user("caretaker", []string{"$KV.leaders.reports", info, read, ctl}, []string{"leader.leaders.reports"}),
		user("half", []string{info, read, ctl}, []string{"leader.leaders.reports"}),
	))
	nc := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if err := natsstore.EnsureBucket(within(t), natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	stand(t, nc, "a")
	stand(t, nc, "b")
	return srv
}

func TestMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	srv := restricted(t)
	for _, c := range []struct {
		user, names string
		args        []string
	}{
		{"half", "$KV.leaders._ctl.reports", []string{"step-down", group, "--yes"}},
		{"half", "$KV.leaders._ctl.reports", []string{"transfer", group, "--to", "b", "--yes"}},
		{"half", "$KV.leaders._ctl.reports", []string{"pause", group, "--yes", "--no-wait"}},
		{"observer", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl.reports", []string{"resume", group, "--yes"}},
		{"operator", "$JS.API.STREAM.INFO.KV_other", []string{"bucket", "create", "other"}},
		{"operator", "$JS.API.STREAM.INFO.KV_other", []string{"bucket", "check", "other"}},
	} {
		out, stderr := as(t, srv.URL(), c.user).run(5, c.args...)
		if out != "" || !strings.Contains(stderr, c.names) {
			t.Errorf("%v: stdout %q, stderr %q, want %q in it", c.args, out, stderr, c.names)
		}
	}
}

func TestOperatorNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	c := as(t, restricted(t).URL(), "operator")
	var r result
	c.json(0, &r, "step-down", group, "--yes")
	if r.Outcome != "done" || r.From == nil || r.To == nil || r.Reason != string(leader.ReasonSteppedDown) {
		t.Errorf("%+v", r)
	}
}

func TestCaretakerNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	srv := restricted(t)
	c := as(t, srv.URL(), "caretaker")
	var r result
	c.vacate(&r)
	if r.Outcome != "done" || r.From == nil || r.Reason != string(leader.ReasonVacated) {
		t.Errorf("%+v", r)
	}
	for _, verb := range []string{"step-down", "pause"} {
		if _, stderr := c.run(5, verb, group, "--yes"); !strings.Contains(stderr, "$KV.leaders._ctl.reports") {
			t.Errorf("%s: stderr %q", verb, stderr)
		}
	}
	// What an operator lacks is the record itself.
	if _, stderr := as(t, srv.URL(), "operator").undisturbed(5, "vacate", group, "--yes", "--force"); !strings.Contains(stderr, `"$KV.leaders.reports"`) {
		t.Errorf("stderr %q", stderr)
	}
}

func TestDoctorTellsWhichRolesAUserCanPlay(t *testing.T) {
	t.Parallel()
	srv := restricted(t)
	before := keys(t, srv)
	for user, roles := range map[string]map[string]string{
		"admin":     {"candidate": "ok", "observer": "ok", "operator": "ok", "caretaker": "ok", "admin": "ok"},
		"candidate": {"candidate": "ok", "observer": "ok", "operator": "info", "admin": "info"},
		"observer":  {"candidate": "info", "observer": "ok", "operator": "info", "admin": "info"},
		"operator":  {"candidate": "info", "observer": "ok", "operator": "ok", "caretaker": "info", "admin": "info"},
		"caretaker": {"candidate": "warn", "observer": "ok", "operator": "info", "caretaker": "ok", "admin": "info"},
	} {
		c := as(t, srv.URL(), user)
		var e examined
		c.json(0, &e, "doctor", "--group", group, "--ttl", "10m", "--role", user)
		for role, want := range roles {
			if f := of(t, e.Findings, role); f.Status != want {
				t.Errorf("%s: %+v, want %s", user, f, want)
			}
		}
		if user == "admin" {
			continue
		}
		c.json(1, &e, "doctor", "--group", group, "--ttl", "10m", "--role", "admin")
		if f := of(t, e.Findings, "admin"); f.Status != "fail" || e.Healthy || !strings.Contains(f.Text, "publish to $JS.API.STREAM.CREATE.KV_leaders") {
			t.Errorf("%s: %+v", user, f)
		}
	}
	if after := keys(t, srv); after != before {
		t.Errorf("the control record or another was written: %d records, before %d", after, before)
	}
}

// keys counts the keys of the bucket: renewals go on, but nobody writes another
// key.
func keys(t *testing.T, srv *natslab.Server) uint64 {
	t.Helper()
	js := natslab.JetStream(t, srv.Connect(t, nats.UserInfo("admin", "admin")))
	stream, err := js.Stream(within(t), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.NumSubjects
}
