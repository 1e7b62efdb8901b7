// Package finding is what an examination finds, and how it is printed.
package finding

import (
	"fmt"
	"io"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// A Status is how a finding is to be taken.
type Status string

// The statuses. Info is what cannot be judged, or need not be.
const (
	OK   Status = "ok"
	Info Status = "info"
	Warn Status = "warn"
	Fail Status = "fail"
)

// A Finding is what one check found, as it is printed.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	// Fix is what to change: a sentence or a command.
	Fix string `json:"fix,omitempty"`
}

// A List is what all checks found, in the order of the checks.
type List []Finding

// Add adds a finding.
func (l *List) Add(check string, status Status, fix, format string, args ...any) {
	*l = append(*l, Finding{Check: check, Status: status, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// Count returns how many findings have the status.
func (l *List) Count(status Status) (n int) {
	for _, f := range *l {
		if f.Status == status {
			n++
		}
	}
	return n
}

// Write prints the findings, value in their place where a program reads.
func (l *List) Write(w io.Writer, f output.Format, value any) error {
	if f.Output == "table" || f.Output == "wide" {
		return l.lines(w)
	}
	var names []string
	for _, x := range *l {
		if x.Status == Warn || x.Status == Fail {
			names = append(names, x.Check)
		}
	}
	return f.Write(w, output.Result{Value: value, Names: names})
}

// lines prints a line for each finding, and what to change below: sentences do not fit into columns.
func (l *List) lines(w io.Writer) error {
	width := 0
	for _, f := range *l {
		width = max(width, len(f.Check))
	}
	for _, f := range *l {
		if _, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Status, width, f.Check, output.Printable(f.Text)); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "      %-*s  → %s\n", width, "", output.Printable(f.Fix)); err != nil {
			return err
		}
	}
	return nil
}
