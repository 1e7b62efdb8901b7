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
