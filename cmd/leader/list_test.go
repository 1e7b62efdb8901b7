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
