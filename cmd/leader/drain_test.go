package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
)

func (l *readLab) drain(want int, args ...string) (r steer.DrainResult, stderr string) {
	l.t.Helper()
	out, errs := l.run(want, append(args, "--yes", "--by", "ann", "-o", "json")...)
	decodeStrictly(l.t, out, &r)
	return r, errs
}

func TestDrainReportsWhoLeadsWhatTheInstanceLed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	one, two := l.stand("one", "a b"), l.stand("two", "a b")
	l.stand("one", "b")
	l.stand("two", "c")
	l.stand("three", "c")
	r, stderr := l.drain(0, "drain", "a b", "--why", "kernel", "--timeout", "60s")
	if r.Instance != "a b" || r.Outcome != "done" || !r.Taken || r.By != "ann" || r.Why != "kernel" || len(r.Groups) != 2 ||
		r.Groups[0].Group != "one" || r.Groups[0].Leader != "b" || r.Groups[1].Group != "two" || r.Groups[1].Leader != "c" {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{`Drains instance "a b" ("kernel")`, "2 groups: one and two", `"b" (term `, `leads group "two"`, "1 left", "leads no group"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	if s := one.Status(); s.Barred != leader.ReasonDrained || two.Status().Barred != leader.ReasonDrained {
		t.Errorf("%+v", s)
	}
	if _, stderr := l.run(0, "ls"); !strings.Contains(stderr, `instance "a b" is drained, by "ann" ("kernel")`) {
		t.Errorf("ls: %q", stderr)
	}
	// Again, it has nothing to hand over.
	if r, _ := l.drain(0, "drain", "a b"); r.Outcome != "done" || len(r.Groups) != 0 {
		t.Errorf("%+v", r)
	}
	if r, stderr := l.drain(0, "undrain", "a b"); r.Outcome != "done" || !strings.Contains(stderr, `It was drained by "ann".`) {
		t.Errorf("%+v, %q", r, stderr)
	}
	if r, _ := l.drain(0, "undrain", "a b"); r.Outcome != "nothing-asked" {
		t.Errorf("%+v", r)
	}
}

func TestDrainedCandidatesAreShownWithOperatorAndReason(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("one", "a b", l.answering())
	l.stand("one", "c", l.answering())
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0", "--timeout", "60s")
	l.drain(0, "drain", "a b", "--why", "kernel", "--timeout", "60s")
	const words = `drained, by "ann" ("kernel")`
	l.until("get shows the drain", func() error {
		out, _ := l.run(0, "get", "one")
		if !regexp.MustCompile(`a b +FOLLOWER \(` + regexp.QuoteMeta(words) + `\)`).MatchString(out) {
			return errors.New(out)
		}
		return nil
	})
	out, _ := l.run(0, "get", "one", "-o", "json")
	var d read.Detail
	decodeStrictly(t, out, &d)
	if want := []read.Drained{{Instance: "a b", By: "ann", Why: "kernel"}}; !slices.Equal(d.Drained, want) {
		t.Errorf("%+v, want %+v", d.Drained, want)
	}
	seen := listen(t, base)
	seen(func(n news) bool { return n.Status.Drained == `instance "a b" is `+words })
	l.until("the page shows the drain", func() error {
		_, _, body := (visit{http.MethodGet, "/api/candidates?group=one", "", nil}).ask(t, base)
		quoted, err := json.Marshal(words)
		if err != nil || !strings.Contains(body, `"barred":`+string(quoted)) {
			return fmt.Errorf("%w: %s", err, body)
		}
		return nil
	})
}

func TestDrainWithoutWaitingOnlyStoresTheOrder(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("one", "a")
	if r, _ := l.drain(0, "drain", "nobody", "--no-wait"); r.Outcome != "filed" || r.Taken {
		t.Errorf("%+v", r)
	}
	l.run(2, "drain", "a")
}

func TestCompletionOffersInstancesToDrainAndUndrain(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("one", "a")
	l.stand("two", "a")
	l.drain(0, "drain", "b", "--no-wait", "--why", "kernel")
	for line, want := range map[string]string{
		"drain ":   "a\tleads 2 groups\n:4\n",
		"undrain ": "b\tdrained, by \"ann\" (\"kernel\")\n:4\n",
	} {
		if out, _ := l.run(0, append([]string{"__complete"}, strings.Split(line, " ")...)...); out != want {
			t.Errorf("leader %s: offered %q, want %q", line, out, want)
		}
	}
}

func TestDrainNeedsNoMoreThanTheDocumentedRights(t *testing.T) {
	t.Parallel()
	const reads = "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl._drain.a"
	l := enter(t, serveUsers(t,
		devtest.User("operator", []string{"$JS.API.STREAM.INFO.KV_leaders", reads, "$KV.leaders._ctl._drain.a"}, []string{"leader.leaders.x"}),
		devtest.User("half", []string{"$JS.API.STREAM.INFO.KV_leaders", reads}, []string{"leader.leaders.x"}),
	), nats.UserInfo("admin", "admin"))
	l.stand(steered, "a")
	userOf(t, l.url, "operator").run(0, "drain", "a", "--yes", "--no-wait")
	userOf(t, l.url, "operator").run(0, "undrain", "a", "--yes")
	if _, stderr := userOf(t, l.url, "operator").run(5, "drain", "a", "--yes"); !strings.Contains(stderr, "--no-wait drains without") {
		t.Errorf("%q", stderr)
	}
	if _, stderr := userOf(t, l.url, "half").run(5, "drain", "a", "--yes", "--no-wait"); !strings.Contains(stderr, "$KV.leaders._ctl._drain.a") {
		t.Errorf("%q", stderr)
	}
}

func TestDoctorReportsWhetherAnInstanceCanBeDrained(t *testing.T) {
	t.Parallel()
	l := restricted(t)
	// A user that was set up for an earlier version can be a candidate, and the
	// missing rights are warnings.
	u := userOf(t, l.url, "earlier")
	for _, c := range []struct{ id, token, remedy string }{{"", "leader-doctor", "--instance"}, {"a b", "=YSBi", ""}} {
		var e examination
		u.json(0, &e, "doctor", "--group", steered, "--ttl", "10m", "--role", "candidate", "--instance", c.id)
		f := e.of(t, "candidate")
		for _, right := range []string{
			"publish to $KV.leaders._ctl._drain.", "publish to $JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl._drain.", "subscribe to leader.leaders._ctl._drain.",
		} {
			if f.Status != finding.Warn || !strings.Contains(f.Text, right+c.token) || !strings.Contains(f.Text, c.remedy) {
				t.Errorf("%q: no warning of %s: %+v", c.id, right, f)
			}
		}
	}
}
