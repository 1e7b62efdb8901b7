// Package output prints what a command found: a table for people, JSON, YAML or names for programs.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"
)

// A Format is the choice of the output. Commands embed it.
type Format struct {
	Output string `short:"o" enum:"table,wide,json,yaml,name" default:"table" placeholder:"FORMAT" help:"How to print: table, wide, json, yaml, name."`
}

// A Result is what a command found, in each form.
type Result struct {
	// Value is printed as JSON and YAML. Its fields are documented with the command, and are only ever added to.
	Value any
	// Head and Rows are the table. The columns from Wide on are shown by -o wide alone.
	Head []string
	Rows [][]string
	Wide int
	// Names is what -o name prints, one a line.
	Names []string
}

// Write prints a result.
func (f Format) Write(w io.Writer, r Result) error {
	switch f.Output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r.Value)
	case "yaml":
		b, err := yaml.Marshal(r.Value)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	case "name":
		for _, name := range r.Names {
			if _, err := fmt.Fprintln(w, name); err != nil {
				return err
			}
		}
		return nil
	default:
		return f.table(w, r)
	}
}

func (f Format) table(w io.Writer, r Result) error {
	columns := r.Wide
	if f.Output == "wide" || columns == 0 {
		columns = len(r.Head)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{r.Head}, r.Rows...) {
		cells := make([]string, columns)
		for i := range cells {
			cells[i] = "-"
			if i < len(row) && row[i] != "" {
				cells[i] = Printable(row[i])
			}
		}
		if _, err := fmt.Fprintln(tab, strings.TrimRight(strings.Join(cells, "\t"), " ")); err != nil {
			return err
		}
	}
	return tab.Flush()
}

// Printable keeps what others wrote into records from steering the terminal or the table: control characters, also those that
// turn the direction of writing, are replaced.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return '\ufffd'
		}
		return r
	}, s)
}
