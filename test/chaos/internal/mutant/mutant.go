// Package mutant builds the program with a bug put into the library, to see that the lab condemns it.
//
// A mutant is the replacement of a piece of text in one file of the library, which the compiler is told of by an
// overlay: the file itself is not touched. A text that is not found exactly once is an error, so that a mutant does
// not quietly become the library itself when that changes.
package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Mutant is a bug.
type Mutant struct {
	Name string
	// Says what is wrong in it.
	Says string
	// Breaks is the guarantee by which it has to be condemned.
	Breaks string
	// Faults are those that bring the bug out.
	Faults []string

	changes []change
}

// A change replaces Old by New in a file of the library.
type change struct{ file, old, new string }

// All are the mutants, in the order of the bugs that the field has had.
var All = []Mutant{
	{
		Name: "from-the-answer", Breaks: "G1",
		Says:   "the trust window is counted from the acknowledgement of a renewal, and not from when that left",
		Faults: []string{"late answers before a black hole"},
		changes: []change{
			{"internal/machine/write.go", "c.renewed(c.ev.Rev, w.Sent)", "c.renewed(c.ev.Rev, c.now)"},
			{"internal/machine/hold.go", "c.renewed(seen.Rev, c.s.Write.First)", "c.renewed(seen.Rev, c.now)"},
		},
	},
	{
		Name: "no-expiry", Breaks: "G1",
		Says:   "IsLeader is a flag, which does not look at the end of the trust window",
		Faults: []string{"pause"},
		changes: []change{{
			"election.go",
			"func (e *election) IsLeader() bool {\n\tg := e.current.Load()\n\treturn g != nil && g.open()\n}",
			"func (e *election) IsLeader() bool {\n\tg := e.current.Load()\n\treturn g != nil\n}",
		}},
	},
	{
		Name: "early-takeover", Breaks: "G1",
		Says:   "a challenger waits for half a lease only",
		Faults: []string{"black hole", "cut", "loss"},
		changes: []change{{
			"internal/machine/watch.go",
			"case Held:\n\t\treturn c.m.wait(c.s.HeldTTL) + c.expiryJitter()",
			"case Held:\n\t\treturn c.m.wait(c.s.HeldTTL)/2 + c.expiryJitter()",
		}},
	},
	{
		Name: "blind-delete", Breaks: "G1",
		Says:   "a release deletes whatever stands there, also a successor's record",
		Faults: []string{"late writes among slow others"},
		changes: []change{{
			"store/natsstore/store.go",
			"\t\tjetstream.WithExpectLastSequencePerSubject(w.Expected),\n",
			"\t\tfunc() jetstream.PublishOpt {\n\t\t\tif w.Tombstone {\n\t\t\t\treturn jetstream.WithExpectStream(s.stream)\n\t\t\t}\n" +
				"\t\t\treturn jetstream.WithExpectLastSequencePerSubject(w.Expected)\n\t\t}(),\n",
		}},
	},
	{
		Name: "release-first", Breaks: "G4",
		Says:   "the record is released while the work is being stopped",
		Faults: []string{"stop", "resign"},
		changes: []change{{
			"internal/machine/hold.go", "case c.now.Mono >= c.s.DrainBy:", "case c.now.Mono >= c.s.DrainBy || true:",
		}},
	},
	{
		Name: "deleted-is-free", Breaks: "G1",
		Says:   "a record that somebody else deleted is free at once",
		Faults: []string{"key deleted", "black hole to the client"},
		changes: []change{{
			"internal/machine/watch.go",
			"return c.m.wait(c.heldTTL()) + c.expiryJitter()",
			"return c.expiryJitter()",
		}},
	},
	{
		Name: "one-shot", Breaks: "G5",
		Says:   "a candidate that has led once never campaigns again",
		Faults: []string{"resign", "stop"},
		changes: []change{{
			"internal/machine/state.go", "return s.View.Kind != Unseen && !s.Undrained", "return s.Grant.Token == \"\" && s.View.Kind != Unseen && !s.Undrained",
		}},
	},
	{
		Name: "endless-context", Breaks: "G1",
		Says:   "the term's context lives for as long as nobody has told it otherwise",
		Faults: []string{"pause"},
		changes: []change{{
			"grant.go",
			"func (c *termContext) Err() error {\n\tif !c.g.open() {",
			"func (c *termContext) Err() error {\n\tif c.g.closed.Load() {",
		}},
	},
	{
		Name: "refused-is-granted", Breaks: "G6",
		Says:   "a claim counts as granted although the store refused it, or another's stands in its place",
		Faults: []string{"server pause", "server kill"},
		changes: []change{
			{
				"internal/machine/write.go",
				"\tcase Conflict:\n\t\tif c.s.Phase == Releasing",
				"\tcase Conflict:\n\t\tif w.Kind == Acquire {\n\t\t\tc.ev.Rev = w.Expected + 1\n\t\t\tc.applied()\n\t\t\treturn\n\t\t}\n\t\tif c.s.Phase == Releasing",
			},
			// The news of the other's claim mostly comes before the refusal.
			{"internal/machine/claim.go", "if c.ours(seen) {\n\t\tif c.s.Write.Maybe {", "if seen.Kind == Held {\n\t\tif c.s.Write.Maybe {"},
		},
	},
	{
		Name: "terms-from-one", Breaks: "G2",
		Says:   "each candidate counts terms for itself",
		Faults: []string{"resign", "stop"},
		changes: []change{{
			"internal/machine/claim.go", "c.s.Grant.Term = rev", "c.s.Grant.Term = 1",
		}},
	},
	{
		Name: "callbacks-overlap", Breaks: "G3",
		Says:   "OnDemote is called in a goroutine of its own, and does not wait for OnPromote",
		Faults: []string{"resign", "stop"},
		changes: []change{{
			"loop.go",
			"\tl.e.courier.hand(func() {\n\t\t// Deferred",
			"\tfunc(f func()) { go f() }(func() {\n\t\t// Deferred",
		}},
	},
	{
		Name: "garbage-kills", Breaks: "G7",
		Says:   "what is no record ends the process",
		Faults: []string{"key overwritten"},
		changes: []change{{
			"internal/record/record.go",
			"\tr, err := decode(e.Value)\n\tif err != nil {\n",
			"\tr, err := decode(e.Value)\n\tif err != nil {\n\t\tpanic(err)\n",
		}},
	},
	{
		Name: "open-guard", Breaks: "G8",
		Says:   "a guarded write does not demand the guard of the server",
		Faults: []string{"pause", "black hole"},
		changes: []change{{
			"fence/natsfence/guard.go",
			"jetstream.WithExpectLastSequenceForSubject(seq, g.subject)", "jetstream.WithExpectStream(g.name)",
		}},
	},
}

// Find returns the mutant of a name.
func Find(name string) (Mutant, error) {
	names := make([]string, len(All))
	for i, m := range All {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return Mutant{}, fmt.Errorf("mutant: there is no %q, but %s", name, strings.Join(names, ", "))
}

// program is what is built.
const program = "github.com/seed-ff2cb582/leader/test/chaos"

// Build builds the program with the mutant in it, in dir, and returns its path. It needs the go command, and to be called within
// the workspace.
func (m Mutant) Build(ctx context.Context, dir string) (binary string, err error) {
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/seed-ff2cb582/leader")
	if err != nil {
		return "", err
	}
	replace, err := m.write(root, dir)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "mutant")
	_, err = output(ctx, "go", "build", "-overlay", path, "-o", binary, program)
	return binary, err
}

// write writes the changed files into dir, and returns which takes the place of which.
func (m Mutant) write(root, dir string) (map[string]string, error) {
	changed := map[string][]byte{}
	for _, c := range m.changes {
		path := filepath.Join(root, c.file)
		source, ok := changed[path]
		if !ok {
			var err error
			if source, err = os.ReadFile(path); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(source, []byte(c.old)); n != 1 {
			return nil, fmt.Errorf("mutant %s: %s holds the text to be changed %d times, not once: %q", m.Name, c.file, n, c.old)
		}
		changed[path] = bytes.Replace(source, []byte(c.old), []byte(c.new), 1)
	}
	replace := map[string]string{}
	for path, source := range changed {
		copied := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(copied, source, 0o600); err != nil {
			return nil, err
		}
		replace[path] = copied
	}
	return replace, nil
}

// output runs a command and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("mutant: %s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
