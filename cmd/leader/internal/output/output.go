// Package output prints what a command found: a table for people, JSON, YAML or
// names for programs.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

// A Format is the choice of the output. Commands embed it.
type Format struct { //nolint:recvcheck // the parser's hook changes it, and all else does not
	Output string `short:"o" enum:"table,wide,json,yaml,name" default:"table" placeholder:"FORMAT" help:"How to print: table, wide, json, yaml, name."`

	env environ.Env
}

// BeforeApply keeps the environment, which determines whether a terminal gets
// colours. The parser calls it. Its name differs from the hooks of app.Target,
// since a struct that embeds both would promote neither of two equal names.
func (f *Format) BeforeApply(env environ.Env) error {
	f.env = env
	return nil
}

// Screen returns what the terminal behind an output can show.
func (f Format) Screen(w io.Writer) Screen { return ScreenOf(w, f.env) }

// A Result is what a command found, in each form.
type Result struct {
	// Value is printed as JSON and YAML. Its fields are documented with the
	// command, and are only ever added to.
	Value any
	// Head and Rows are the table. The columns from Wide on are shown by -o
	// wide alone.
	Head []string
	Rows [][]string
	Wide int
	// Bare tables have no line of heads.
	Bare bool
	// Minor are the heads of the columns that are left out, in this order, on a
	// terminal that is too narrow for all.
	Minor []string
	// Tint chooses how a cell catches the eye on a terminal; nil means not at
	// all.
	Tint func(head, cell string) Tint
	// Names is what -o name prints, one a line.
	Names []string
}

// Write prints a result. A table for a terminal is fitted to it.
func (f Format) Write(w io.Writer, r Result) error { return f.WriteOn(f.Screen(w), w, r) }

// WriteOn is Write for what is to be shown on a screen later.
func (f Format) WriteOn(screen Screen, w io.Writer, r Result) error {
	switch f.Output {
	case "json":
		return write(w, r.Value, "  ")
	case "yaml":
		return writeYAML(w, r.Value)
	case "name":
		for _, name := range r.Names {
			if _, err := fmt.Fprintln(w, Printable(name)); err != nil {
				return err
			}
		}
		return nil
	default:
		return f.table(w, r, screen)
	}
}

// WriteLine prints a value as one line of JSON.
func WriteLine(w io.Writer, v any) error { return write(w, v, "") }

func write(w io.Writer, v any, indent string) error {
	b, err := encode(v, indent)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// encode returns a value as JSON and escapes the characters that could steer a
// terminal, some of which encoding/json leaves as they are. A program reads the
// same value.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	var escaped []byte
	for _, r := range b.String() {
		if r != '\n' && steers(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped, nil
}

// writeYAML prints a value as YAML. If the YAML contains characters that could
// steer a terminal, it prints JSON, which is YAML, too, and escapes them.
func writeYAML(w io.Writer, v any) error {
	b, err := encode(v, "  ")
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(b)
	if err != nil {
		return err
	}
	if !bytes.ContainsFunc(text, func(r rune) bool { return r != '\n' && steers(r) }) {
		b = text
	}
	_, err = w.Write(b)
	return err
}

func (f Format) table(w io.Writer, r Result, screen Screen) error {
	columns := r.Wide
	if f.Output == "wide" || columns == 0 {
		columns = len(r.Head)
	}
	g := r.grid(columns)
	left := g.fit(screen.Width, r.Minor)
	var text strings.Builder
	if !r.Bare {
		g.write(&text, g.heads, func(_, _, s string) string { return screen.Paint(Heading, s) })
	}
	for _, row := range g.rows {
		g.write(&text, row, func(head, cell, s string) string {
			if r.Tint == nil {
				return s
			}
			return screen.Paint(r.Tint(head, cell), s)
		})
	}
	if len(left) > 0 {
		text.WriteString(screen.Paint(Quiet, screen.Wrap("Not shown, for want of room: "+strings.Join(left, ", "), "")) + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Printable keeps what others wrote into records from steering the terminal or
// the table: control characters, those included that turn the direction of
// writing, are replaced. A tab, by which some clients of stores indent their
// errors, becomes a space.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if steers(r) {
			return '\ufffd'
		}
		return r
	}, s)
}

// steers reports whether a character may change what a terminal shows of
// others.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
