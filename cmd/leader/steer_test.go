package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
)

const steered = "reports"

// asked is what is asked of the group.
func (l *readLab) asked() leader.ControlState {
	l.t.Helper()
	control, err := leader.NewControl(l.nc, labBucket, "test")
	if err != nil {
		l.t.Fatal(err)
	}
	defer control.Close()
	state, err := control.State(l.within(), steered)
	if err != nil {
		l.t.Fatal(err)
	}
	return state
}

// steer runs a command that prints JSON, and has time.
func (l *readLab) steer(want int, args ...string) (r steer.Result, stderr string) {
	l.t.Helper()
	out, errs := l.run(want, append(args, "--timeout", "60s", "-o", "json")...)
	decodeStrictly(l.t, out, &r)
	return r, errs
}

func TestStepDownReportsTheNewLeaderAndTheGap(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a, b := l.stand(steered, "a"), l.stand(steered, "b")
	term := a.Status().Term
	r, stderr := l.steer(0, "step-down", steered, "--yes", "--by", "ann", "--why", "new disk")
	if r.Outcome != "done" || r.By != "ann" || r.Why != "new disk" || r.Reason != leader.ReasonSteppedDown {
		t.Errorf("%+v", r)
	}
	if r.From == nil || r.From.ID != "a" || r.From.Term != term || r.To == nil || r.To.ID != "b" || r.To.Term <= term || r.To.Address != "b:80" {
		t.Errorf("from %+v to %+v", r.From, r.To)
	}
	if r.GapMS == nil || *r.GapMS < 0 || r.DrainMS == nil {
		t.Errorf("gap %v, drain %v", r.GapMS, r.DrainMS)
	}
	for _, want := range []string{`Asks "a" (term `, `group "reports" ("new disk")`, `"b" (term `, "nobody did for "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	// The command goes by the record, and may have seen b's before its answer
	// came to b.
	for info := range b.Observe(l.within()) {
		if info.ID == "b" {
			return
		}
	}
	t.Errorf("b sees %q lead", b.Status().LeaderID)
}

func TestTransferHandsOverToTheNamedCandidate(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for _, id := range []string{"a", "b", "c"} {
		l.stand(steered, id)
	}
	if r, _ := l.steer(0, "transfer", steered, "--to", "c", "-y"); r.To == nil || r.To.ID != "c" || r.Reason != leader.ReasonTransferred {
		t.Errorf("%+v", r)
	}
	// The group is in the requested state already: a script that asks for it
	// has succeeded.
	term := l.asked().Leader.Term
	same, stderr := l.steer(0, "transfer", steered, "--to", "c", "-y")
	if same.Outcome != "nothing-asked" || same.To == nil || same.To.ID != "c" || !strings.Contains(stderr, `leads group "reports" already`) {
		t.Errorf("%+v, stderr %q", same, stderr)
	}
	if s := l.asked(); s.Leader.Term != term || s.Pending.Op != "" {
		t.Errorf("%+v", s)
	}
	r, stderr := l.steer(1, "transfer", steered, "--to", "nobody", "-y")
	if r.Outcome != "other-successor" || r.To == nil || r.To.ID == "c" || !strings.Contains(stderr, `"nobody"`) {
		t.Errorf("%+v, stderr %q", r, stderr)
	}
}

// A name that nobody has costs the group its leader for the head start that
// nobody takes.
func TestTransferToAnUnknownCandidateIsRefused(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for _, id := range []string{"a", "b"} {
		l.stand(steered, id, l.answering())
	}
	// The roll call waits for a second at most, which a busy machine may
	// take to answer: hence again.
	l.until("the missing candidate is reported", func() error {
		code, out, stderr := runProgram(t, []string{"NATS_URL=" + l.url}, "transfer", steered, "--to", "bb", "-y", "--timeout", "60s")
		if code != 4 || out != "" || !strings.Contains(stderr, `no candidate "bb" answers the roll call; "a" and "b" do`) || !strings.Contains(stderr, "--force") {
			return fmt.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
		}
		return nil
	})
	if s := l.asked(); s.Pending.Op != "" {
		t.Errorf("%+v", s)
	}
	if r, stderr := l.steer(1, "transfer", steered, "--to", "bb", "-y", "--force"); r.Outcome != "other-successor" || !strings.Contains(stderr, `"bb"`) {
		t.Errorf("%+v, stderr %q", r, stderr)
	}
	l.until("a candidate that is there is not reported missing", func() error {
		other := "a"
		if s := l.asked(); s.Leader.ID == "a" {
			other = "b"
		}
		if _, stderr := l.steer(0, "transfer", steered, "--to", other, "-y"); strings.Contains(stderr, "roll call") {
			return errors.New(stderr)
		}
		return nil
	})
}

func TestPauseShowsThatNobodyLeadsAndResumeWhoDoes(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand(steered, "a")
	out, _ := l.run(0, "pause", steered, "-y", "--timeout", "60s", "--why", "migration", "--by", "ann")
	if rows := cells(out); len(rows) != 2 || !slices.Equal(rows[0], []string{"GROUP", "OUTCOME", "LEADER", "TERM", "GAP", "BEFORE", "DRAIN"}) ||
		len(rows[1]) != 7 || !slices.Equal(rows[1][:6], []string{"reports", "done", "-", "-", "-", "a"}) {
		t.Errorf("%s", out)
	}
	if s := l.asked(); !s.Paused || s.PausedBy != "ann" || s.PausedWhy != "migration" || s.Leader.ID != "" {
		t.Errorf("%+v", s)
	}
	_, stderr := l.run(4, "step-down", steered, "-y")
	if !strings.Contains(stderr, `paused, by "ann" ("migration")`) || !strings.Contains(stderr, "leader resume reports") {
		t.Errorf("stderr %q", stderr)
	}
	r, _ := l.steer(0, "resume", steered, "-y")
	if r.Outcome != "done" || r.To == nil || r.To.ID != "a" || r.GapMS == nil {
		t.Errorf("%+v", r)
	}
	if r, _ := l.steer(0, "resume", steered, "-y"); r.To == nil || r.To.ID != "a" || r.GapMS != nil {
		t.Errorf("of a group that is not paused: %+v", r)
	}
}

func TestNothingIsAskedWhereNobodyCanConfirm(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand(steered, "a")
	for _, args := range [][]string{{"step-down"}, {"transfer", "--to", "b"}, {"pause"}, {"resume"}, {"step-down", "--withdraw"}} {
		out, stderr := l.run(2, append(args, steered)...)
		if out != "" || !strings.Contains(stderr, "--yes") {
			t.Errorf("%v: stdout %q, stderr %q", args, out, stderr)
		}
	}
	if s := l.asked(); s.Paused || s.Pending.Op != "" {
		t.Errorf("%+v", s)
	}
}

func TestMissingLeaderHasItsExitStatus(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	out, stderr := l.run(4, "step-down", "nobodys", "-y")
	if out != "" || !strings.Contains(stderr, `group "nobodys": the bucket "leaders" knows nothing of it`) {
		t.Errorf("stdout %q, stderr %q", out, stderr)
	}
	_, stderr = l.run(5, "step-down", steered, "-y", "--bucket", "missing")
	if !strings.Contains(stderr, `"missing" does not exist`) {
		t.Errorf("stderr %q", stderr)
	}
	_, stderr = l.run(2, "pause", "a b", "-y")
	if !strings.Contains(stderr, `"a b"`) {
		t.Errorf("stderr %q", stderr)
	}
	_, stderr = l.run(2, "pause", steered, "-y", "--by", "\x1b[31m")
	if strings.Contains(stderr, "\x1b") {
		t.Errorf("stderr %q", stderr)
	}
}

// mute lets a candidate lead that hears nothing any more.
func (l *readLab) mute() {
	l.t.Helper()
	nc, err := nats.Connect(l.url, nats.Timeout(patience))
	if err != nil {
		l.t.Fatal(err)
	}
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: labBucket, Group: steered, InstanceID: "mute", TTL: 20 * time.Minute, HeartbeatInterval: time.Minute,
		AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(l.within())); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = e.Stop() })
	for info := range e.Observe(l.within()) {
		if info.ID == "mute" {
			break
		}
	}
	nc.Close()
}

func TestUnansweredRequestLastsUntilItIsWithdrawn(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.mute()
	out, stderr := l.run(6, "step-down", steered, "-y", "--timeout", "2s", "-o", "json")
	var r steer.Result
	decodeStrictly(t, out, &r)
	if r.Outcome != "timeout" || r.To != nil || r.From == nil || r.From.ID != "mute" {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{`"mute" still leads`, "leader step-down reports --withdraw"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	if s := l.asked(); s.Pending.Op != leader.OpStepDown {
		t.Errorf("asked %+v", s.Pending)
	}
	if r, _ := l.steer(0, "step-down", steered, "--withdraw", "-y"); r.Outcome != "withdrawn" {
		t.Errorf("%+v", r)
	}
	if s := l.asked(); s.Pending.Op != "" {
		t.Errorf("asked %+v", s.Pending)
	}
	if r, _ := l.steer(0, "step-down", steered, "--withdraw", "-y"); r.Outcome != "nothing-asked" {
		t.Errorf("%+v", r)
	}
	_, stderr = l.run(6, "pause", steered, "-y", "--timeout", "2s")
	if !strings.Contains(stderr, "leader resume reports") || !l.asked().Paused {
		t.Errorf("stderr %q", stderr)
	}
}

func TestRequestIsFiledWithoutWaiting(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.mute()
	r, stderr := l.steer(0, "step-down", steered, "-y", "--no-wait")
	if r.Outcome != "filed" || r.From == nil || r.From.ID != "mute" || !strings.Contains(stderr, "leader get reports") {
		t.Errorf("%+v, stderr %q", r, stderr)
	}
	if s := l.asked(); s.Pending.Op != leader.OpStepDown || !strings.Contains(s.Pending.By, "@") {
		t.Errorf("asked %+v", s.Pending)
	}
}

func TestSampleElectionsCanBeSteered(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"step-down", "reports"}, {"transfer", "reports", "--to", "worker-1"}, {"pause", "jobs.eu"}, {"resume", "billing"},
	} {
		code, out, stderr := runProgram(t, nil, append(args, "--dev", "--yes", "--timeout", "60s", "-o", "json")...)
		if code != 0 {
			t.Errorf("%v: exit status %d, stderr %q", args, code, stderr)
			continue
		}
		var r steer.Result
		decodeStrictly(t, out, &r)
		if r.Outcome != "done" || string(r.Operation) != args[0] || (r.To == nil) != (args[0] == "pause") {
			t.Errorf("%v: %+v", args, r)
		}
	}
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

// vacate ends the record of a live leader. A renewal between the program's look
// and its write is left alone, as it should be, and the program looks once
// more.
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
	// A renewal between the two looks is reported in other words.
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
