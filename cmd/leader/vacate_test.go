package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
)

// put writes over a group's record, as another program does.
func (l *readLab) put(group, value string) {
	l.t.Helper()
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err == nil {
		_, err = kv.Put(l.within(), group, []byte(value))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// listed are the groups that ls shows.
func (l *readLab) listed(args ...string) (groups []read.Group) {
	l.t.Helper()
	out, _ := l.run(0, append([]string{"ls", "-o", "json"}, args...)...)
	decodeStrictly(l.t, out, &groups)
	return groups
}

func TestVacateEndsTheRecordOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, rec := range map[string]string{"a name": "host-7", "no lease": `{"id":"host-7","token":"t"}`} {
		l := newReadLab(t)
		l.put(steered, rec)
		r, stderr := l.steer(0, "vacate", steered, "-y", "--by", "ann", "--why", "moved")
		if r.Outcome != "done" || r.By != "ann" || r.Why != "moved" || r.Reason != leader.ReasonVacated {
			t.Errorf("%s: %+v", name, r)
		}
		if !strings.Contains(stderr, "Make sure that it has ended") {
			t.Errorf("%s: stderr %q", name, stderr)
		}
		if s := l.asked(); !s.Vacant || s.Leader.Reason != leader.ReasonVacated || s.Leader.By != "ann" {
			t.Errorf("%s: %+v", name, s)
		}
		// Its TTL is 20 s, and one that had to wait for a lease would not be
		// there in time.
		if a := l.stand(steered, "a"); !a.IsLeader() {
			t.Errorf("%s: %+v", name, a.Status())
		}
	}
}

// vacate ends the record of a leader that lives. What that one renews between
// the program's look and its write is left alone, as it should be, and the
// program looks once more.
func (l *readLab) vacate() (r steer.Result, stderr string) {
	l.t.Helper()
	args := []string{"vacate", steered, "-y", "--force", "--timeout", "60s", "-o", "json"}
	for limit := l.within(); ; {
		code, out, errs := runProgram(l.t, []string{"NATS_URL=" + l.url}, args...)
		if code == 0 {
			decodeStrictly(l.t, out, &r)
			return r, errs
		}
		if code != 1 || !strings.Contains(errs, "was written meanwhile") || limit.Err() != nil {
			l.t.Fatalf("%v: exit status %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestVacateLeavesALeaderThatLives(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand(steered, "a")
	term := a.Status().Term
	_, stderr := l.run(1, "vacate", steered, "-y")
	// A renewal between the two looks is told otherwise.
	renews := strings.Contains(stderr, `"a" renews`) || strings.Contains(stderr, `by "a"`)
	if !renews || !strings.Contains(stderr, "leader step-down reports") {
		t.Errorf("stderr %q", stderr)
	}
	if s := a.Status(); !s.IsLeader || s.Term != term {
		t.Errorf("%+v", s)
	}
	r, stderr := l.vacate()
	if r.Outcome != "done" || r.From == nil || r.From.ID != "a" || r.From.Term != term {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(stderr, "for 22s at the most") {
		t.Errorf("stderr %q", stderr)
	}
	for info := range a.Observe(l.within()) {
		if info.ID == "a" && info.Term > term {
			break
		}
	}
}

func TestVacateHasNothingToEnd(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(4, "vacate", steered, "-y")
	l.run(4, "forget", steered, "-y")
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	if r, _ := l.steer(0, "vacate", steered, "-y"); r.Outcome != "nothing-asked" || r.Reason != leader.ReasonStopped {
		t.Errorf("%+v", r)
	}
	l.run(2, "vacate", steered)
	l.run(2, "forget", steered)
}

func TestAForgottenGroupIsHiddenUntilItReturns(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("other", "o")
	a := l.stand(steered, "a")
	term := a.Term().Number
	if _, stderr := l.run(1, "forget", steered, "-y"); !strings.Contains(stderr, `"a" renews`) {
		t.Errorf("stderr %q", stderr)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if r, _ := l.steer(0, "forget", steered, "-y", "--why", "moved"); r.Outcome != "done" || r.Reason != leader.ReasonForgotten {
		t.Errorf("%+v", r)
	}
	if r, _ := l.steer(0, "forget", steered, "-y"); r.Outcome != "nothing-asked" {
		t.Errorf("%+v", r)
	}
	if all := l.listed(); len(all) != 1 || all[0].Group != "other" {
		t.Errorf("%+v", all)
	}
	for _, args := range [][]string{{"--all"}, {steered}} {
		all := l.listed(args...)
		if last := all[len(all)-1]; last.Group != steered || last.Reason != leader.ReasonForgotten || last.Why != "moved" || last.Term != term {
			t.Errorf("%q: %+v", args, all)
		}
	}
	if b := l.stand(steered, "b"); b.Term().Number <= term {
		t.Errorf("term %d follows %d", b.Term().Number, term)
	}
	if all := l.listed(); len(all) != 2 || all[1].Leader != "b" {
		t.Errorf("%+v", all)
	}
}

func TestForgetRefusesWhatMayReturn(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put(steered, "host-7")
	if _, stderr := l.run(1, "forget", steered, "-y"); !strings.Contains(stderr, "leader vacate reports") {
		t.Errorf("stderr %q", stderr)
	}
	l.run(0, "vacate", steered, "-y")
	l.run(0, "pause", steered, "-y", "--by", "ann")
	if _, stderr := l.run(1, "forget", steered, "-y"); !strings.Contains(stderr, "leader resume reports") {
		t.Errorf("stderr %q", stderr)
	}
	l.run(0, "resume", steered, "-y", "--no-wait")
	l.run(0, "forget", steered, "-y")
}

// The bucket reads as it does for other tools: nobody is there.
func TestAForgottenGroupIsDeletedForOtherTools(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(l.within(), steered); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("%v: %+v", err, e)
	}
}

func TestExporterLeavesForgottenGroupsOut(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("other", "o")
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	for _, args := range [][]string{nil, {"--all"}} {
		url, stop := startServing(t, []string{"NATS_URL=" + l.url}, append([]string{"exporter", "--http", "127.0.0.1:0"}, args...)...)
		page := awaitPage(t, url, "both groups", has(
			`election_observer_groups{bucket="leaders"} 2`, `election_group_leader_known{bucket="leaders",role="other"} 1`))
		const vacant = `election_group_vacant{bucket="leaders",reason="forgotten",role="reports"} 1`
		if got, want := strings.Contains(page, vacant), args != nil; got != want || strings.Contains(page, `role="reports"`) != want {
			t.Errorf("%q:\n%s", args, page)
		}
		stop()
	}
}
