package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
)

// firsts returns the first cell of each line.
func firsts(out string) (all []string) {
	for line := range strings.Lines(out) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, first)
	}
	return all
}

func TestListSortsAndLeavesOutAsAsked(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"ls":                               {"GROUP", "billing", "jobs.eu", "jobs.us", "reports"},
		"ls --no-headers":                  {"billing", "jobs.eu", "jobs.us", "reports"},
		"ls --no-headers --sort leader":    {"billing", "jobs.eu", "jobs.us", "reports"}, // -, eu-1, us-1, worker-2
		"ls --no-headers --vacant":         {"billing"},
		"ls --no-headers --vacant -o wide": {"billing"},
		"ls --vacant -o name":              {"billing"},
		"ls --vacant jobs.* -o name":       nil,
	} {
		code, out, stderr := runProgram(t, nil, append(strings.Fields(line), "--dev")...)
		if code != 0 || !slices.Equal(firsts(out), want) {
			t.Errorf("leader %s: exit status %d, %q, want %q; stderr %q", line, code, firsts(out), want, stderr)
		}
	}
	var groups []read.Group
	_, out, _ := runProgram(t, nil, "ls", "--dev", "--sort", "since", "-o", "json")
	decodeStrictly(t, out, &groups)
	if len(groups) != 4 || !slices.IsSortedFunc(groups, func(a, b read.Group) int { return b.Since.Compare(a.Since) }) {
		t.Errorf("not with the latest change first: %s", out)
	}
	_, out, _ = runProgram(t, nil, "ls", "--dev", "--sort", "term", "-o", "json")
	groups = nil
	decodeStrictly(t, out, &groups)
	if len(groups) != 4 || !slices.IsSortedFunc(groups, func(a, b read.Group) int { return int(b.Term) - int(a.Term) }) {
		t.Errorf("not with the highest term first: %s", out)
	}
}

// A group that was paused before it has had a leader has no record. An operator
// who asks why nobody leads wants to see it all the same.
func TestListShowsAGroupThatIsPausedBeforeItsFirstLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("other", "o")
	l.run(0, "pause", "early", "--yes", "--why", "not yet")
	for _, args := range [][]string{{"ls", "-o", "json"}, {"ls", "early", "-o", "json"}, {"ls", "--vacant", "-o", "json"}} {
		var groups []read.Group
		out, _ := l.run(0, args...)
		decodeStrictly(t, out, &groups)
		g := groups[0]
		if g.Group != "early" || g.Leader != "" || !g.Paused || g.PausedBy == "" || g.PausedWhy != "not yet" || len(groups) > 1 && groups[1].Paused {
			t.Errorf("%v: %+v", args, groups)
		}
	}
	// Who waits is told, too.
	var g read.Group
	out, _ := l.run(0, "wait", "early", "--vacant", "-o", "json")
	decodeStrictly(t, out, &g)
	if !g.Paused || g.PausedWhy != "not yet" {
		t.Errorf("%s", out)
	}
	_, stderr := l.run(6, "wait", "early", "--timeout", "2s")
	if !strings.Contains(stderr, `nobody leads group "early": paused by `) {
		t.Error(stderr)
	}
	out, _ = l.run(0, "ls", "-o", "wide", "early")
	if !strings.Contains(out, " paused by ") || !strings.Contains(out, " not yet ") {
		t.Error(out)
	}

	// Who follows the list sees a pause come and go.
	w := l.follow("ls", "-w", "-o", "json")
	next := func() (g read.Group) { w.next(&g); return g }
	if g := next(); g.Group != "early" || !g.Paused {
		t.Errorf("%+v", g)
	}
	if g := next(); g.Group != "other" || g.Paused {
		t.Errorf("%+v", g)
	}
	l.run(0, "resume", "early", "--yes", "--no-wait")
	if g := next(); g.Group != "early" || g.Paused {
		t.Errorf("%+v", g)
	}
	l.run(0, "pause", "other", "--yes", "--timeout", "60s")
	for {
		if g := next(); g.Group != "other" {
			t.Errorf("%+v", g)
		} else if g.Paused && g.Leader == "" {
			break
		}
	}
	l.run(0, "resume", "other", "--yes", "--timeout", "60s")
	for {
		if g := next(); g.Group != "other" {
			t.Errorf("%+v", g)
		} else if !g.Paused && g.Leader == "o" {
			break
		}
	}
	l.stand("early", "e")
	if g := next(); g.Group != "early" || g.Leader != "e" {
		t.Errorf("%+v", g)
	}
}
