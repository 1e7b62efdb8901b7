package output

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"sigs.k8s.io/yaml"
)

func sample() Result {
	return Result{
		Head: []string{"GROUP", "LEADER", "VERSION", "CHANGE", "WHY", "ADDRESS"},
		Rows: [][]string{
			{"reports", "worker-2", "", "transferred by ann", "worker-1 gets a new disk", "worker-2.example:8080"},
			{"jobs.eu", "", "", "paused by ann", "database migration", "eu-1.example:8080"},
		},
		Minor: []string{"ADDRESS", "CHANGE"},
		Tint: func(head, cell string) Tint {
			if head == "LEADER" && cell == "-" {
				return Bad
			}
			return Plain
		},
	}
}

func on(t *testing.T, s Screen, r Result) string {
	t.Helper()
	var b strings.Builder
	if err := (Format{Output: "table"}).WriteOn(s, &b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestATableOfAFileIsAsWideAsItsCells(t *testing.T) {
	want := `GROUP     LEADER     VERSION   CHANGE               WHY                        ADDRESS
reports   worker-2   -         transferred by ann   worker-1 gets a new disk   worker-2.example:8080
jobs.eu   -          -         paused by ann        database migration         eu-1.example:8080
`
	if got := on(t, Screen{}, sample()); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	bare := sample()
	bare.Bare = true
	if got, _, _ := strings.Cut(on(t, Screen{}, bare), " "); got != "reports" {
		t.Errorf("begins with %q", got)
	}
}

// Words are whole at every width that has room for the columns that stay, and
// what is left out is named.
func TestATableOnATerminalEndsLinesBetweenWords(t *testing.T) {
	var known []string
	for _, row := range append(sample().Rows, sample().Head) {
		for _, cell := range row {
			known = append(known, strings.Fields(cell)...)
		}
	}
	known = append(known, "-", "Not", "shown,", "for", "want", "of", "room:", "ADDRESS,")
	for width := 40; width <= 120; width++ {
		out := on(t, Screen{Width: width}, sample())
		for line := range strings.Lines(out) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns on a screen of %d: %q", n, width, line)
			}
			for word := range strings.FieldsSeq(line) {
				if !slices.Contains(known, word) {
					t.Errorf("a part of a word on a screen of %d: %q in %q", width, word, line)
				}
			}
		}
		if strings.Contains(out, "ADDRESS ") == strings.Contains(out, "room: ADDRESS") && !strings.Contains(out, "ADDRESS\n") {
			t.Errorf("ADDRESS is neither shown nor named:\n%s", out)
		}
	}
	if out := on(t, Screen{Width: 90}, sample()); strings.Contains(out, "VERSION") || strings.Contains(out, "Not shown") {
		t.Errorf("not the column in which nothing is went first:\n%s", out)
	}
}

func TestOnlyAScreenOfColoursIsPainted(t *testing.T) {
	if out := on(t, Screen{Width: 200, Color: true}, sample()); !strings.Contains(out, "\x1b[1mGROUP\x1b[m") || !strings.Contains(out, "\x1b[31m-\x1b[m") {
		t.Errorf("%q", out)
	}
	if out := on(t, Screen{Width: 200}, sample()); strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
}

func TestProseIsWrappedBetweenWords(t *testing.T) {
	s := Screen{Width: 20}
	for text, want := range map[string]string{
		"short":                                        "short",
		"a sentence that is longer than it":            "a sentence that is\n  longer than it",
		"  indented, and longer than it is":            "  indented, and\n  longer than it is",
		"one-word-that-is-longer-than-a-line and more": "one-word-that-is-longer-than-a-line\n  and more",
	} {
		if got := s.Wrap(text, "  "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := (Screen{}).Wrap(strings.Repeat("word ", 100), "  "); strings.Contains(got, "\n") {
		t.Errorf("in a file: %q", got)
	}
}

// steering is a text that would steer a terminal: escape sequences in both their
// forms, line breaks, and characters that change the direction of writing.
const steering = "a\x1b[2J\u009b2J\x7f\r\nb\u202ec\u2066d\u2028e"

// A terminal shows the text of others without obeying it, and a program reads
// it unchanged.
func TestNoFormatLetsATextSteerTheTerminal(t *testing.T) {
	r := Result{
		Value: map[string]string{"who": steering, steering: "key"}, Names: []string{steering, "next"},
		Head: []string{"WHO"}, Rows: [][]string{{steering}},
	}
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		var b strings.Builder
		if err := (Format{Output: format}).WriteOn(Screen{}, &b, r); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if text := b.String(); strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && steers(c) }) || !strings.Contains(text, "a") {
			t.Errorf("%s: %+q", format, text)
		}
		var read map[string]string
		switch format {
		case "json":
			_ = json.Unmarshal([]byte(b.String()), &read)
		case "yaml":
			_ = yaml.Unmarshal([]byte(b.String()), &read)
		case "name":
			if n := strings.Count(b.String(), "\n"); n != 2 {
				t.Errorf("%d lines for two names", n)
			}
			continue
		default:
			continue
		}
		if read["who"] != steering || read[steering] != "key" {
			t.Errorf("%s: a program reads %+q", format, read)
		}
	}
}
