package boundaries

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryCommandOfThePagesFindsItsTest: a row of docs/evidence/track-record.md
// contains how to see a bug again. A test that was renamed or moved meanwhile
// leaves a command that passes, for it runs nothing.
func TestEveryCommandOfThePagesFindsItsTest(t *testing.T) {
	pages := pages(t)
	tests, commands := declaredTests(t), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range testCommands(string(text)) {
			commands++
			for _, name := range c.names {
				if !declared(tests, c.dirs, name) {
					t.Errorf("%s: no test %s for `%s`", filepath.Base(page), name, c.text)
				}
			}
		}
	}
	if commands < 25 {
		t.Fatalf("%d commands: are these not the pages?", commands)
	}
}

func TestACommandIsReadOverTheEndsOfLines(t *testing.T) {
	page := "One `go test\n  -run TestOne ./one`, `-run TestNone`, and an odd `.\n\n" +
		"    go test -run TestBlock .\n\n```\ngo test -run TestBlock .\n```\n" +
		"Two `cd a && go test -run 'TestTwo\\|TestThree'\n./two`.\n"
	var got []string
	for _, c := range testCommands(page) {
		got = append(got, fmt.Sprint(c.dirs, c.names))
	}
	if want := []string{"[one] [TestOne]", "[a/two] [TestTwo TestThree]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A testCommand is a go test with a choice of tests.
type testCommand struct {
	text  string
	dirs  []string // where the tests are, with /... for all below
	names []string // each must find a test
}

var (
	// A code span may be broken over lines, but ends with its paragraph. A
	// block of code is none, though its fence is made of the same sign.
	fence     = regexp.MustCompile("(?m)^ *```.*$")
	paragraph = regexp.MustCompile(`\n\s*\n`)
	quoted    = regexp.MustCompile("`([^`]+)`")
	enters    = regexp.MustCompile(`\bcd (\S+)`)
	// Choices with groups are left alone.
	chosen = regexp.MustCompile(`-run[ =](?:'([^'(]*)'|"([^"(]*)"|([^\s'"(]+))`)
	local  = regexp.MustCompile(`\s(\.(?:/\S*)?)(?:\s|$)`)
)

// spans returns the text of each code span, on one line.
func spans(page string) (all []string) {
	for _, p := range paragraph.Split(fence.ReplaceAllString(page, ""), -1) {
		for _, found := range quoted.FindAllStringSubmatch(p, -1) {
			all = append(all, strings.Join(strings.Fields(found[1]), " "))
		}
	}
	return all
}

func testCommands(page string) (all []testCommand) {
	for _, text := range spans(page) {
		text = strings.ReplaceAll(text, `\|`, "|") // as a cell of a table has it
		choice := chosen.FindStringSubmatch(text)
		if choice == nil || !strings.Contains(text, "go test ") || strings.Contains(text, "TestName") {
			continue
		}
		base := "."
		if in := enters.FindStringSubmatch(text); in != nil {
			base = in[1]
		}
		c := testCommand{text: text}
		// Twice, since a match takes the space before the next.
		for _, dir := range local.FindAllStringSubmatch(strings.ReplaceAll(text, " ", "  "), -1) {
			c.dirs = append(c.dirs, filepath.ToSlash(filepath.Join(base, dir[1])))
		}
		if c.dirs == nil {
			c.dirs = []string{base}
		}
		for name := range strings.SplitSeq(choice[1]+choice[2]+choice[3], "|") {
			name, _, _ = strings.Cut(name, "/") // a subtest
			if name = strings.Trim(name, "^$"); name != "" {
				c.names = append(c.names, name)
			}
		}
		all = append(all, c)
	}
	return all
}

// declaredTests returns the names of the tests in each directory.
func declaredTests(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	walk(t, root, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(text, -1) {
			all[filepath.ToSlash(dir)] = append(all[filepath.ToSlash(dir)], string(found[1]))
		}
	})
	return all
}

// declared reports whether one of the directories has a test whose name has
// this part.
func declared(tests map[string][]string, dirs []string, part string) bool {
	for _, dir := range dirs {
		below, all := strings.CutSuffix(dir, "...")
		below = strings.TrimSuffix(below, "/")
		for at, names := range tests {
			if at != dir && (!all || !within(at, below) && below != "") {
				continue
			}
			for _, name := range names {
				if strings.Contains(name, part) {
					return true
				}
			}
		}
	}
	return false
}

// A row of docs/evidence/track-record.md names its test as directory.TestName in its last
// cell. A test "at 7fdde253" exists at that commit.
func TestEveryRowOfTheTrackRecordNamesATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "evidence", "track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, named := declaredTests(t), 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 2 {
			continue
		}
		for _, found := range rowTest.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			dir, name := strings.TrimSuffix(found[1], "."), found[2]
			if dir == "" {
				dir = "."
			}
			named++
			if found[3] == "" && !slices.Contains(tests[dir], name) {
				t.Errorf("%s has no test %s: %s", dir, name, line)
			}
		}
	}
	if named < 500 {
		t.Fatalf("%d tests are named: is this not the track record?", named)
	}
}

var rowTest = regexp.MustCompile("`((?:[\\w/-]+\\.)?)((?:Test|Fuzz)\\w+)`( at [0-9a-f]{7,})?")
