// Package finding is what an examination finds, and how it is printed.
package finding

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
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

// Add adds a finding. Errors among args are put in words for people. The text
// is one line: joined errors are separated by semicolons.
func (l *List) Add(check string, status Status, fix, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, app.Worded(args)...), "\n", "; ")
	*l = append(*l, Finding{Check: check, Status: status, Text: text, Fix: fix})
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
		return l.lines(w, f.Screen(w))
	}
	var names []string
	for _, x := range *l {
		if x.Status == Warn || x.Status == Fail {
			names = append(names, x.Check)
		}
	}
	return f.Write(w, output.Result{Value: value, Names: names})
}

// lines prints a line for each finding, and what to change below: sentences do
// not fit into columns.
func (l *List) lines(w io.Writer, screen output.Screen) error {
	width := 0
	for _, f := range *l {
		width = max(width, len(f.Check))
	}
	indent := strings.Repeat(" ", width+8)
	var text strings.Builder
	for _, f := range *l {
		line := fmt.Sprintf("%-4s  %-*s  %s", f.Status, width, f.Check, output.Printable(f.Text))
		line = screen.Wrap(line, indent)
		status := string(f.Status)
		text.WriteString(screen.Paint(f.Status.tint(), status) + strings.TrimPrefix(line, status) + "\n")
		if f.Fix != "" {
			text.WriteString(screen.Wrap(indent+"→ "+output.Printable(f.Fix), indent+"  ") + "\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (s Status) tint() output.Tint {
	switch s {
	case OK:
		return output.Good
	case Warn:
		return output.Caution
	case Fail:
		return output.Bad
	default:
		return output.Quiet
	}
}
