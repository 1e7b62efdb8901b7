package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
)

// watchedGroup is a group of which users with few rights see what they may.
const watchedGroup = "jobs.eu"

// The rights that docs/operate/permissions.md gives to an observer of one group, and to
// one of all, in a bucket that republishes and in one of nats kv add.
const (
	readsInfo     = "$JS.API.STREAM.INFO.KV_"
	readsKey      = "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders." + watchedGroup
	readsAll      = "$JS.API.DIRECT.GET.KV_leaders"
	hearsKey      = "leader.leaders." + watchedGroup
	hearsAll      = "leader.leaders.>"
	consumesKey   = "$JS.API.CONSUMER.CREATE.KV_plain.*.$KV.plain." + watchedGroup
	consumesAll   = "$JS.API.CONSUMER.CREATE.KV_plain.*.$KV.plain.>"
	readsPlainKey = "$JS.API.DIRECT.GET.KV_plain.$KV.plain." + watchedGroup
	plainBucket   = "plain"
)

// observers is a server with a bucket of each kind, in which a leads the group,
// and with users of the rights above.
func observers(t *testing.T) func(name, bucket string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	url := serveUsers(t,
		devtest.User("one", []string{readsInfo + labBucket, readsKey}, []string{hearsKey}),
		devtest.User("all", []string{readsInfo + labBucket, readsAll, readsAll + ".>"}, []string{hearsAll}),
		devtest.User("plain-one", []string{readsInfo + plainBucket, readsPlainKey, consumesKey}, nil),
		devtest.User("plain-all", []string{readsInfo + plainBucket, consumesAll}, nil),
		devtest.User("one-uninformed", []string{readsKey}, []string{hearsKey}),
		devtest.User("all-uninformed", []string{readsAll, readsAll + ".>"}, []string{hearsAll}),
		devtest.User("one-hearing", []string{readsInfo + labBucket}, []string{hearsKey}),
		devtest.User("all-hearing", []string{readsInfo + labBucket}, []string{hearsAll}),
		&server.User{Username: "nobody", Password: "nobody", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_nobody.>"}},
		}},
	)
	l := enter(t, url, nats.UserInfo("admin", "admin"))
	if _, err := l.js.CreateKeyValue(l.within(), jetstream.KeyValueConfig{Bucket: plainBucket}); err != nil {
		t.Fatal(err)
	}
	l.standIn(labBucket, watchedGroup, "a", l.answering())
	l.standIn(plainBucket, watchedGroup, "a")
	return func(name, bucket string, args ...string) (int, string, string) {
		t.Helper()
		return userOf(t, url, name).try(append(args, "--bucket", bucket)...)
	}
}

// Rights that doctor finds sufficient are sufficient, to look at one group and
// at all, and rights that it finds insufficient are insufficient.
func TestTheDocumentedRightsOfAnObserverSuffice(t *testing.T) {
	t.Parallel()
	as := observers(t)
	for _, c := range []struct {
		user, bucket, role string
		lines              []string
	}{
		{"one", labBucket, "observer", []string{"get " + watchedGroup, "ls " + watchedGroup, "watch " + watchedGroup + " -n 1"}},
		{"all", labBucket, "viewer", []string{"get " + watchedGroup, "ls", "ls jobs.>", "watch -n 1"}},
		{"plain-one", plainBucket, "observer", []string{"get " + watchedGroup, "ls " + watchedGroup, "watch " + watchedGroup + " -n 1"}},
		{"plain-all", plainBucket, "viewer", []string{"get " + watchedGroup, "ls", "watch -n 1"}},
	} {
		t.Run(c.user, func(t *testing.T) {
			t.Parallel() // what they may not ask, they wait for
			for _, line := range c.lines {
				code, out, stderr := as(c.user, c.bucket, strings.Fields(line)...)
				if code != 0 || !strings.Contains(out, watchedGroup) || strings.Contains(stderr, "\ufffd") || internals.MatchString(stderr) {
					t.Errorf("leader %s: exit status %d\n%s%s", line, code, out, stderr)
				}
				if asks := strings.HasPrefix(line, "get "); asks != strings.Contains(stderr, "leader-rollcall."+c.bucket+"."+watchedGroup) ||
					asks != strings.Contains(out, "No candidate answered") {
					t.Errorf("leader %s: the missing right to ask for candidates is not reported, or is reported without a reason\n%s%s", line, out, stderr)
				}
			}
			examine := []string{"doctor", "--group", watchedGroup, "--ttl", "10m", "-o", "name", "--role"}
			if code, out, stderr := as(c.user, c.bucket, append(examine, c.role)...); code != 0 || strings.Contains(out, c.role) {
				t.Errorf("doctor: exit status %d\n%s%s", code, out, stderr)
			}
			_, out, stderr := as(c.user, c.bucket, examine[:5]...)
			if word := internals.FindString(out + stderr); word != "" {
				t.Errorf("doctor prints %q:\n%s%s", word, out, stderr)
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
	if code, out, stderr := as("all", labBucket, "ls", "-o", "name"); code != 0 || out != watchedGroup+"\n" || stderr != "" {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := as("nobody", labBucket, "ls", "--timeout", "3s"); code != 5 && code != 6 || out != "" || stderr == "" {
		t.Errorf("who may do nothing: exit status %d: %s%s", code, out, stderr)
	}
}

// The test follows docs/operate/permissions.md on observers who lack a right.
func TestAnObserverDoesWithoutARight(t *testing.T) {
	t.Parallel()
	as := observers(t)
	for name, lines := range map[string][]string{
		"one-uninformed": {"get " + watchedGroup, "ls " + watchedGroup, "watch " + watchedGroup + " -n 1", "wait " + watchedGroup},
		"all-uninformed": {"get " + watchedGroup, "ls", "watch -n 1"},
		"one-hearing":    {"watch " + watchedGroup + " -n 1", "wait " + watchedGroup}, // the next renewal
		"all-hearing":    {"watch -n 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, line := range lines {
				code, out, stderr := as(name, labBucket, strings.Fields(line)...)
				if code != 0 || !strings.Contains(out, watchedGroup) || internals.MatchString(stderr) {
					t.Errorf("leader %s: exit status %d\n%s%s", line, code, out, stderr)
				}
				if hears := strings.Contains(stderr, "hears of each with its next write"); hears != strings.HasSuffix(name, "hearing") {
					t.Errorf("leader %s: %s", line, stderr)
				}
			}
		})
	}
}

// restricted is a server whose users have the rights of one role each, in
// docs/operate/permissions.md.
func restricted(t *testing.T) *readLab {
	t.Helper()
	const read, ctl = "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.reports", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl.reports"
	const drains, readsDrains, hearsDrains = "$KV.leaders._ctl._drain.>", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl._drain.>", "leader.leaders._ctl._drain.>"
	const info, ran = "$JS.API.STREAM.INFO.KV_leaders", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl._ran.reports"
	l := enter(t, serveUsers(t,
		devtest.User("candidate", []string{"$KV.leaders.reports", info, read, ctl, drains, readsDrains},
			[]string{"leader.leaders.reports", "leader.leaders._ctl.reports", hearsDrains}),
		devtest.User("scheduler", []string{"$KV.leaders.reports", info, read, ctl, "$KV.leaders._ctl.reports", "$KV.leaders._ctl._ran.reports", ran, drains, readsDrains},
			[]string{"leader.leaders.reports", "leader.leaders._ctl.reports", "leader.leaders._ctl._ran.reports", hearsDrains}),
		devtest.User("observer", []string{info, read}, []string{"leader.leaders.reports"}),
		devtest.User("operator", []string{"$KV.leaders._ctl.reports", info, read, ctl, drains, readsDrains}, []string{"leader.leaders.reports"}),
		devtest.User("earlier", []string{"$KV.leaders.reports", info, read, ctl}, []string{"leader.leaders.reports", "leader.leaders._ctl.reports"}),
		devtest.User("caretaker", []string{"$KV.leaders.reports", info, read, ctl}, []string{"leader.leaders.reports"}),
		devtest.User("half", []string{info, read, ctl}, []string{"leader.leaders.reports"}),
	), nats.UserInfo("admin", "admin"))
	l.stand(steered, "a")
	l.stand(steered, "b")
	return l
}

func TestMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	l := restricted(t)
	for _, c := range []struct {
		user, names string
		args        []string
	}{
		{"half", "$KV.leaders._ctl.reports", []string{"step-down", steered, "--yes"}},
		{"half", "$KV.leaders._ctl.reports", []string{"transfer", steered, "--to", "b", "--yes"}},
		{"half", "$KV.leaders._ctl.reports", []string{"pause", steered, "--yes", "--no-wait"}},
		{"observer", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl.reports", []string{"resume", steered, "--yes"}},
		{"operator", "$JS.API.STREAM.INFO.KV_other", []string{"bucket", "create", "other"}},
		{"operator", "$JS.API.STREAM.INFO.KV_other", []string{"bucket", "check", "other"}},
	} {
		out, stderr := userOf(t, l.url, c.user).run(5, c.args...)
		if out != "" || !strings.Contains(stderr, c.names) {
			t.Errorf("%v: stdout %q, stderr %q, want %q in it", c.args, out, stderr, c.names)
		}
	}
}

func TestOperatorNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	var r steer.Result
	userOf(t, restricted(t).url, "operator").json(0, &r, "step-down", steered, "--yes")
	if r.Outcome != "done" || r.From == nil || r.To == nil || r.Reason != leader.ReasonSteppedDown {
		t.Errorf("%+v", r)
	}
}

// undisturbed runs a command that writes the record of a live leader. A renewal
// between the command's look and its write is left alone, as it should be, and
// the command looks once more.
func (u user) undisturbed(want int, args ...string) (stdout, stderr string) {
	u.t.Helper()
	for limit := within(u.t); ; {
		code, stdout, stderr := u.try(args...)
		if code == want {
			return stdout, stderr
		}
		if code != 1 || !strings.Contains(stderr, "was written meanwhile") || limit.Err() != nil {
			u.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
	}
}

func TestCaretakerNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	l := restricted(t)
	u := userOf(t, l.url, "caretaker")
	out, _ := u.undisturbed(0, "vacate", steered, "--yes", "--force", "-o", "json")
	var r steer.Result
	decodeStrictly(t, out, &r)
	if r.Outcome != "done" || r.From == nil || r.Reason != leader.ReasonVacated {
		t.Errorf("%+v", r)
	}
	// Until another leads, step-down has nobody to ask.
	u.run(0, "wait", steered)
	for _, verb := range []string{"step-down", "pause"} {
		if _, stderr := u.run(5, verb, steered, "--yes"); !strings.Contains(stderr, "$KV.leaders._ctl.reports") {
			t.Errorf("%s: stderr %q", verb, stderr)
		}
	}
	// The operator lacks only the right to the record itself.
	if _, stderr := userOf(t, l.url, "operator").undisturbed(5, "vacate", steered, "--yes", "--force"); !strings.Contains(stderr, `"$KV.leaders.reports"`) {
		t.Errorf("stderr %q", stderr)
	}
}

func TestDoctorReportsWhichRolesAUserCanPlay(t *testing.T) {
	t.Parallel()
	l := restricted(t)
	// Renewals go on, but nobody writes another key.
	keys := func() uint64 {
		s, err := l.js.Stream(l.within(), "KV_"+labBucket)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.NumSubjects
	}
	before := keys()
	for name, roles := range map[string]map[string]finding.Status{
		"admin":     {"candidate": "ok", "scheduler": "ok", "observer": "ok", "operator": "ok", "caretaker": "ok", "admin": "ok"},
		"candidate": {"candidate": "ok", "scheduler": "info", "observer": "ok", "operator": "info", "admin": "info"},
		"observer":  {"candidate": "info", "observer": "ok", "operator": "info", "admin": "info"},
		"scheduler": {"candidate": "ok", "scheduler": "ok", "observer": "ok", "operator": "ok", "admin": "info"},
		"operator":  {"candidate": "info", "scheduler": "info", "observer": "ok", "operator": "ok", "caretaker": "info", "admin": "info"},
		"caretaker": {"candidate": "warn", "observer": "ok", "operator": "info", "caretaker": "ok", "admin": "info"},
	} {
		u := userOf(t, l.url, name)
		var e examination
		u.json(0, &e, "doctor", "--group", steered, "--ttl", "10m", "--role", name)
		got := map[string]finding.Status{}
		for role := range roles {
			got[role] = e.of(t, role).Status
		}
		if !maps.Equal(got, roles) {
			t.Errorf("%s: %v, want %v", name, got, roles)
		}
		if name == "admin" {
			continue
		}
		e = examination{}
		u.json(1, &e, "doctor", "--group", steered, "--ttl", "10m", "--role", "admin")
		if f := e.of(t, "admin"); f.Status != finding.Fail || e.Healthy || !strings.Contains(f.Text, "publish to $JS.API.STREAM.CREATE.KV_leaders") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if after := keys(); after != before {
		t.Errorf("the control record or another was written: %d records, before %d", after, before)
	}
}
