package main

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
)

// forgetOne leaves one group behind that is forgotten, beside one that is led.
func forgetOne(t *testing.T) *readLab {
	t.Helper()
	l := newReadLab(t)
	l.stand("other", "o")
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	return l
}

func TestWatchLeavesForgottenGroupsOut(t *testing.T) {
	l := forgetOne(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"other"}},
		{[]string{"--all", "-n", "2"}, []string{"other", steered}},
		{[]string{steered, "-n", "1"}, []string{steered}}, // asked for by its name
	} {
		f := l.follow(append([]string{"watch", "-o", "json"}, c.args...)...)
		seen := map[string]bool{}
		for range c.want {
			var change read.Change
			f.next(&change)
			seen[change.Group] = true
		}
		for _, group := range c.want {
			if !seen[group] {
				t.Errorf("%q: saw %v, want %v", c.args, seen, c.want)
			}
		}
	}
	// Who watches is told that a group is forgotten, and that it is back.
	f := l.follow("watch", "-o", "json")
	var change read.Change
	f.next(&change)
	if change.Group != "other" {
		t.Errorf("%+v", change)
	}
	l.stand(steered, "b")
	f.next(&change)
	if change.Group != steered || change.Leader != "b" {
		t.Errorf("%+v", change)
	}
}

// A bucket whose groups are all forgotten is not one that never had any.
func TestListSaysThatItLeavesForgottenGroupsOut(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	for pattern, want := range map[string]string{
		">":      "leader: bucket \"leaders\" has no groups but forgotten ones, which --all shows\n",
		"*":      "leader: bucket \"leaders\" has no groups that match * but forgotten ones, which --all shows\n",
		"jobs.>": "leader: bucket \"leaders\" has no groups that match jobs.>\n",
	} {
		if out, errs := l.run(0, "ls", pattern); out != "" || errs != want {
			t.Errorf("%s: %q, %q", pattern, out, errs)
		}
	}
	if out, errs := l.run(0, "ls", "--all", "-o", "name"); out != steered+"\n" || errs != "" {
		t.Errorf("--all: %q, %q", out, errs)
	}
}

func TestCompletionLeavesForgottenGroupsOut(t *testing.T) {
	l := forgetOne(t)
	for _, c := range []struct {
		line string
		want bool
	}{{"get ", false}, {"watch ", false}, {"ls --all ", true}, {"ls -a ", true}} {
		out, _ := l.run(0, append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		if !strings.Contains(out, "other\t") || strings.Contains(out, steered) != c.want {
			t.Errorf("leader %s: offered\n%s", c.line, out)
		}
	}
}

// A pause brings no group back that is marked as gone, however one looks.
func TestListLeavesForgottenGroupsOutThatArePaused(t *testing.T) {
	t.Parallel()
	l := forgetOne(t)
	l.run(0, "pause", steered, "--yes")
	out, _ := l.run(0, "ls", "-o", "name")
	if out != "other\n" {
		t.Errorf("%q", out)
	}
	w := l.follow("ls", "-w", "-o", "json")
	var g read.Group
	w.next(&g)
	if g.Group != "other" {
		t.Errorf("%+v", g)
	}
	l.run(0, "pause", "other", "--yes", "--timeout", "60s")
	for g = (read.Group{}); !g.Paused; {
		w.next(&g)
		if g.Group != "other" {
			t.Fatalf("%+v", g)
		}
	}
	out, _ = l.run(0, "ls", steered, "-o", "json")
	var groups []read.Group
	decodeStrictly(t, out, &groups)
	if len(groups) != 1 || groups[0].Term == 0 || !groups[0].Paused {
		t.Errorf("%s", out)
	}
}
