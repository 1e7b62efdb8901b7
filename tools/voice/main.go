// Command voice counts phrases that make the project's English hard to read: in
// the comments and strings of Go files, and in the pages. CONTRIBUTING.md
// contains the rules that these phrases break.
//
// It exits with status 1 if an area has more of one phrase in a thousand words
// than its limit allows.
//
//	voice [-show N] [PATH...]
//
// The paths restrict the count, as with git ls-files. With -show it also prints
// the first N places of each phrase.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// A phrase is a habit, and the pattern that finds it.
type phrase struct {
	name    string
	pattern *regexp.Regexp
}

// phrases returns the phrases that are counted.
func phrases() []phrase {
	return []phrase{
		{"tell", regexp.MustCompile(`\b(?:tells?|told|telling)\b`)},
		{"say", regexp.MustCompile(`\b(?:says?|said)\b`)},
		{"stand", regexp.MustCompile(`\b(?:stands?|stood)\b`)},
		{"What/Who…", regexp.MustCompile(`^(?:That|Those) [a-z]|(?:^|[.!?:] )(?:What|Who|Whom|Whose|Whoever|Nobody|None|One) [a-z]`)},
		{"that of", regexp.MustCompile(`\b(?:that|those) of\b`)},
		{"of ours", regexp.MustCompile(`\bof (?:ours|theirs|its own|one's own)\b`)},
		{"is no", regexp.MustCompile(`\b(?:is|are|was|were) no [a-z]`)},
		{"odd", regexp.MustCompile(`\b(?:anew|besides|in vain|for good|whom|whoever|begun|takes? along|taken along|would else|or else it|present state|it is so)\b`)},
	}
}

// Idioms that contain a phrase and read well.
var allowed = regexp.MustCompile(`\b(?:(?:is|are|was|were) no longer|there (?:is|are|was|were) no)\b`)

// An area has one limit for all of its files together.
type area struct {
	name    string
	limit   float64 // places in 1,000 words, of each phrase
	phrases []phrase
	words   int
	found   map[string][]string
}

func main() {
	show := flag.Int("show", 0, "print the first `N` places of each phrase")
	flag.Parse()
	over, err := run(context.Background(), os.Stdout, *show, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "voice:", err)
		os.Exit(2)
	}
	if over {
		fmt.Fprintln(os.Stderr, "voice: above the limit: -show 20 lists the places, and CONTRIBUTING.md the rules")
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, show int, paths []string) (over bool, err error) {
	listed, err := exec.CommandContext(ctx, "git", append([]string{"ls-files", "-z", "--"}, paths...)...).Output()
	if err != nil {
		return false, fmt.Errorf("list the files: %w", err)
	}
	areas := []*area{
		{name: "root and stores", limit: 0.5},
		{name: "command", limit: 0.5},
		{name: "pages", limit: 0.5},
		{name: "all else", limit: 1},
	}
	counted := phrases()
	for _, a := range areas {
		a.phrases, a.found = counted, map[string][]string{}
	}
	for file := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		if skipped(file) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, and not yet committed
		}
		areas[areaOf(file)].count(file, text)
	}
	fmt.Fprintf(w, "%-18s%8s%7s", "per 1,000 words", "words", "limit")
	for _, p := range counted {
		fmt.Fprintf(w, "%11s", p.name)
	}
	fmt.Fprintln(w)
	for _, a := range areas {
		over = a.print(w, show) || over
	}
	return over, nil
}

func skipped(file string) bool {
	switch path.Ext(file) {
	case ".go", ".md":
	default:
		return true
	}
	return strings.HasSuffix(file, ".pb.go") || strings.Contains(file, "/testdata/") || file == "CHANGELOG.md"
}

func areaOf(file string) int {
	switch first, _, _ := strings.Cut(file, "/"); {
	case path.Ext(file) == ".md":
		return 2
	case strings.HasPrefix(file, "cmd/leader/"):
		return 1
	case first == "test", first == "examples", first == "tools":
		return 3
	default:
		return 0
	}
}

func (a *area) count(file string, text []byte) {
	pieces := page(text)
	if path.Ext(file) == ".go" {
		pieces = source(text)
	}
	for _, piece := range pieces {
		a.words += len(strings.Fields(piece.text))
		text := allowed.ReplaceAllString(piece.text, "")
		for _, p := range a.phrases {
			for range p.pattern.FindAllString(text, -1) {
				a.found[p.name] = append(a.found[p.name], fmt.Sprintf("%s:%d: %.110s", file, piece.line, piece.text))
			}
		}
	}
}

// print reports whether a phrase is above the limit.
func (a *area) print(w io.Writer, show int) (over bool) {
	fmt.Fprintf(w, "%-18s%8d%7.1f", a.name, a.words, a.limit)
	for _, p := range a.phrases {
		rate := 1000 * float64(len(a.found[p.name])) / float64(max(1, a.words))
		over = over || rate > a.limit
		fmt.Fprintf(w, "%11.2f", rate)
	}
	fmt.Fprintln(w)
	for _, p := range a.phrases {
		for _, place := range a.found[p.name][:min(show, len(a.found[p.name]))] {
			fmt.Fprintf(w, "  %s: %s\n", p.name, place)
		}
	}
	return over
}

// A piece is a paragraph, a comment or a string, and where it begins.
type piece struct {
	line int
	text string
}

var testName = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)(?:Hole)?([A-Z]\w+)$`)

// sentence returns the words of a name, of which the first begins with a
// capital.
func sentence(name string) string {
	var b strings.Builder
	for i := range len(name) {
		upper := name[i] >= 'A' && name[i] <= 'Z'
		if i > 0 && upper && (name[i-1] >= 'a' || i+1 < len(name) && name[i+1] >= 'a') {
			b.WriteByte(' ')
		}
		if i > 0 && upper {
			b.WriteByte(name[i] + 'a' - 'A')
		} else {
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// source returns the groups of comment lines, the names of tests as sentences,
// and the strings that are more than a word: help, log lines, errors.
func source(text []byte) (pieces []piece) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	last, before := -1, token.ILLEGAL
	for {
		pos, tok, literal := s.Scan()
		line := file.Line(pos)
		switch {
		case tok == token.EOF:
			return pieces
		case tok == token.COMMENT && !strings.HasPrefix(literal, "//go:"):
			comment := strings.TrimSpace(strings.Trim(literal, "/*"))
			if line == last+1 && len(pieces) > 0 {
				pieces[len(pieces)-1].text += " " + comment
			} else {
				pieces = append(pieces, piece{line, comment})
			}
			last = line
		case tok == token.IDENT && before == token.FUNC && testName.MatchString(literal):
			pieces, last = append(pieces, piece{line, sentence(testName.FindStringSubmatch(literal)[1])}), -1
		case tok == token.STRING && strings.Count(literal, " ") > 1:
			pieces, last = append(pieces, piece{line, strings.Join(strings.Fields(strings.Trim(literal, "\"`")), " ")}), -1
		}
		before = tok
	}
}

var fence = regexp.MustCompile("(?ms)^ *```.*?\\n *```")

// page returns the paragraphs of a page, without its blocks of code.
func page(text []byte) (pieces []piece) {
	text = fence.ReplaceAllFunc(text, func(block []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(block, []byte("\n"))) })
	line := 1
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		if joined := strings.Join(strings.Fields(paragraph), " "); joined != "" {
			pieces = append(pieces, piece{line, joined})
		}
		line += strings.Count(paragraph, "\n") + 2
	}
	return pieces
}
