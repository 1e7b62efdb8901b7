// Package mutant builds the program with a bug put into the library, to see
// that the lab condemns it.
//
// A mutant is the replacement of a piece of text in files of the library: see
// package overlay.
package mutant

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/overlay"
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
	// FastServers: it takes servers that drop records too early, since their
	// clocks are fast.
	FastServers bool

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
			{"internal/machine/write.go", "case Renew:\n\t\tc.renewed(c.ev.Rev, c.s.Write.Sent)", "case Renew:\n\t\tc.renewed(c.ev.Rev, c.now)"},
			{"internal/machine/hold.go", "c.renewed(seen.Rev, c.s.Write.First)", "c.renewed(seen.Rev, c.now)"},
		},
	},
	{
		Name: "no-expiry", Breaks: "G1",
		Says:   "IsLeader is a flag, which does not look at the end of the trust window",
		Faults: []string{"pause"},
		changes: []change{{
			"internal/engine/candidate.go",
			"func (c *Candidate) IsLeader() bool {\n\tw := c.current.Load()\n\treturn w != nil && w.open()\n}",
			"func (c *Candidate) IsLeader() bool {\n\tw := c.current.Load()\n\treturn w != nil\n}",
		}},
	},
	{
		Name: "early-takeover", Breaks: "G1",
		Says:   "a challenger waits for half a lease only",
		Faults: []string{"black hole", "cut", "loss"},
		changes: []change{{
			"internal/machine/watch.go",
			"case Held:\n\t\treturn c.m.wait(c.s.HeldTTL)",
			"case Held:\n\t\treturn c.m.wait(c.s.HeldTTL) / 2",
		}},
	},
	{
		Name: "trust-without-margin", Breaks: "G1",
		Says:   "a holder trusts its lease for the whole TTL, and allows nothing for a clock that is slow",
		Faults: []string{"black hole", "cut", "loss"},
		changes: []change{{
			file: "internal/machine/time.go", old: "return ttl - margin(ttl, drift)", new: "return ttl",
		}},
	},
	{
		Name: "challenge-without-margin", Breaks: "G1",
		Says:   "a challenger waits for the TTL, and allows nothing for a clock that is fast",
		Faults: []string{"black hole", "cut", "loss"},
		changes: []change{{
			file: "internal/machine/time.go", old: "return ttl + margin(ttl, drift)", new: "return ttl",
		}},
	},
	{
		Name: "blind-delete", Breaks: "G1",
		Says:   "a release deletes any record, also a successor's",
		Faults: []string{"late writes among slow others"},
		changes: []change{{
			"store/natsstore/internal/wire/message.go",
			"f.msg.Header.Set(HeaderOperation, OpDelete)",
			"f.msg.Header.Set(HeaderOperation, OpDelete)\n\t\tf.msg.Header.Del(jetstream.ExpectedLastSubjSeqHeader)",
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
			"return c.m.wait(c.heldTTL())",
			"return 0",
		}},
	},
	{
		Name: "expiry-unheeded", Breaks: "G1", FastServers: true,
		Says:   "leaders do not cool down where the servers drop records by their age",
		Faults: []string{"newcomers"},
		changes: []change{{
			"internal/engine/config.go", "auto && (report.Forgetful || report.Expires)", "auto && report.Forgetful",
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
		Says:   "the term's context lives until it is cancelled explicitly",
		Faults: []string{"pause"},
		changes: []change{{
			"internal/engine/trust.go",
			"func (c *termContext) Err() error {\n\tif c.w.open() {",
			"func (c *termContext) Err() error {\n\tif c.w.closed.Load() == nil {",
		}},
	},
	{
		Name: "refused-is-granted", Breaks: "G6",
		Says:   "a claim counts as granted although the store refused it, or another's claim was stored",
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
		Says:   "OnDemote is called in a separate goroutine, and does not wait for OnPromote",
		Faults: []string{"resign", "stop"},
		changes: []change{{
			"internal/engine/loop.go",
			"\tl.callbacks.ofTerm(func() {\n\t\t// Deferred",
			"\tfunc(f, _ func()) { go f() }(func() {\n\t\t// Deferred",
		}},
	},
	{
		Name: "garbage-kills", Breaks: "G7",
		Says:   "a value that is not a record ends the process",
		Faults: []string{"key overwritten"},
		changes: []change{{
			"internal/record/record.go",
			"\tcase decode(e.Value, r) != nil:\n",
			"\tcase decode(e.Value, r) != nil:\n\t\tos.Exit(2) // a panic would end the election alone\n",
		}, {
			"internal/record/record.go", "\t\"fmt\"\n", "\t\"fmt\"\n\t\"os\"\n",
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

// library is what is changed.
const library = "github.com/seed-ff2cb582/leader"

// Overlay writes the changed files of the library into dir, and returns what
// [overlay.Build] wants to know of them. It needs the go command, and to be
// called within the workspace.
func (m Mutant) Overlay(ctx context.Context, dir string) (map[string]string, error) {
	root, err := overlay.Go(ctx, "list", "-m", "-f", "{{.Dir}}", library)
	if err != nil {
		return nil, err
	}
	return m.write(root, dir)
}

func (m Mutant) write(root, dir string) (map[string]string, error) {
	changes := make([]overlay.Change, len(m.changes))
	for i, c := range m.changes {
		changes[i] = overlay.Change{File: c.file, Old: c.old, New: c.new}
	}
	replace, err := overlay.Write(root, dir, changes)
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	return replace, nil
}
