package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
)

// waiting runs leader wait beside what it waits for.
func (l *readLab) waiting(args ...string) (end func() read.Group) {
	l.t.Helper()
	type result struct {
		code      int
		out, errs string
	}
	done := make(chan result, 1)
	go func() {
		code, out, errs := runProgram(l.t, []string{"NATS_URL=" + l.url}, append([]string{"wait", steered, "-o", "json", "--timeout", "60s"}, args...)...)
		done <- result{code, out, errs}
	}()
	return func() (g read.Group) {
		l.t.Helper()
		r := <-done
		if r.code != 0 {
			l.t.Fatalf("%q: exit status %d: %s", args, r.code, r.errs)
		}
		decodeStrictly(l.t, r.out, &g)
		return g
	}
}

func TestWaitEndsWhenItHasComeToThat(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	led, vacant, byB := l.waiting(), l.waiting("--vacant"), l.waiting("--by", "b")
	if g := vacant(); g.Leader != "" {
		t.Errorf("%+v", g)
	}
	a := l.stand(steered, "a")
	if g := led(); g.Leader != "a" || g.Term != a.Term().Number {
		t.Errorf("%+v", g)
	}
	if g := l.waiting("--by", "a")(); g.Leader != "a" {
		t.Errorf("%+v", g)
	}
	l.stand(steered, "b")
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if g := byB(); g.Leader != "b" {
		t.Errorf("%+v", g)
	}
}

// It shows what leader ls does. Once the record has been renewed, only the
// record itself says since when: neither history nor roll call is asked.
func TestWaitShowsSinceWhen(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand(steered, "a")
	if err := a.ValidateToken(l.within()); err != nil { // the record has been renewed
		t.Fatal(err)
	}
	if got, want := l.waiting()().Since, l.listed()[0].Since; got.IsZero() || !got.Equal(want) {
		t.Errorf("led since %v, and by leader ls since %v", got, want)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := l.waiting("--vacant")().Since; got.IsZero() {
		t.Error("vacant since when?")
	}
}

func TestWaitEndsWhenNobodyLeadsAnyMore(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand(steered, "a")
	vacant := l.waiting("--vacant")
	if err := a.Pause(l.within(), "migration"); err != nil {
		t.Fatal(err)
	}
	if g := vacant(); g.Leader != "" || g.Reason != leader.ReasonPaused {
		t.Errorf("%+v", g)
	}
}

// waits waits in vain, and returns what it is told. On a busy machine the first
// wait may end before it has heard anything.
func (l *readLab) waits(args ...string) (stderr string) {
	l.t.Helper()
	for wait := 300 * time.Millisecond; wait < time.Minute; wait *= 5 {
		_, stderr = l.run(6, append([]string{"wait", steered, "--timeout", wait.String()}, args...)...)
		if !strings.Contains(stderr, "nothing was heard") {
			break
		}
	}
	return stderr
}

func TestWaitSaysWhatItSawInstead(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if stderr := l.waits(); !strings.Contains(stderr, "nobody leads group") {
		t.Errorf("stderr %q", stderr)
	}
	l.stand(steered, "a")
	for want, args := range map[string][]string{
		`"a" leads group "reports" in term `: {"--vacant"},
		`and not "b"`:                        {"--by", "b"},
	} {
		if stderr := l.waits(args...); !strings.Contains(stderr, want) {
			t.Errorf("%q: stderr %q", args, stderr)
		}
	}
	l.run(2, "wait", steered, "--vacant", "--by", "a")
	l.run(5, "wait", steered, "--bucket", "none", "--timeout", "60s")
}

// A record that its dead leader left behind reads as one of a leader that
// lives. Its lease is over by the server's clock.
func TestWaitDoesNotTakeADeadLeaderForOneThatLeads(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put(steered, `{"id":"gone","token":"t","ttl":1,"term":7}`)
	// Of the server itself: leader ls leaves out what it does not hear within a
	// second, and on a busy machine that may be each time.
	l.until("the record is old", func() error {
		kept, err := l.js.Stream(l.within(), "KV_leaders")
		if err != nil {
			return err
		}
		msg, err := kept.GetLastMsgForSubject(l.within(), "$KV.leaders."+steered)
		if err == nil && time.Since(msg.Time) < 3*time.Second {
			err = context.DeadlineExceeded
		}
		return err
	})
	if stderr := l.waits(); !strings.Contains(stderr, "nobody leads") {
		t.Errorf("stderr %q", stderr)
	}
}
