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

// TestEveryCommandOfThePagesFindsItsTest: a row of docs/track-record.md says
// how to see a bug again. A test that was renamed or moved meanwhile leaves a
// command that passes, for it runs nothing.
func TestEveryCommandOfThePagesFindsItsTest(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
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
	if commands < 100 {
		t.Fatalf("%d commands: are these not the pages?", commands)
	}
}

// TestEveryPlaceOfTheTrackRecordIsThere: a row says what to take out, and
// where, to see a bug again. Code that was moved or renamed meanwhile leaves a
// row that nobody can follow. One that names a commit is of that commit.
func TestEveryPlaceOfTheTrackRecordIsThere(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources, found := goFiles(t), 0
	for line := range strings.Lines(strings.ReplaceAll(string(page), `\|`, "|")) {
		if !strings.HasPrefix(line, "| ") || ofCommit(line) {
			continue
		}
		for _, p := range places(line) {
			found++
			if !p.in(sources) {
				t.Errorf("docs/track-record.md: no %q in %s", p.text, p.file)
			}
		}
	}
	if found < 100 {
		t.Fatalf("%d places: is this not the page?", found)
	}
}

func TestWhichPlacesARowNames(t *testing.T) {
	for row, want := range map[string]string{
		"`go test .`, without `x()` in `a.go`":           "[{a.go } {a.go x()}]",
		"`true` for `x` in `a/b.go`":                     "[{a/b.go } {a/b.go x}]",
		"with `new` for `old` in `f` of `a.go`":          "[{a.go } {a.go f} {a.go old}]",
		"without `x` in `f` (`a.go`)":                    "[{a.go } {a.go f} {a.go x}]",
		"with `new` in `f` of `a.go`":                    "[{a.go } {a.go f}]",
		"with `new` in `a.go`, and `x` taken out of `f`": "[{a.go }]",
		"`go run ./a.go`":                                "[]",
	} {
		if got := fmt.Sprint(places(row)); got != want {
			t.Errorf("%s: got %s, want %s", row, got, want)
		}
	}
	for row, want := range map[string]bool{
		"at 574769a^": true, "f2971e1 and its tests": true, "`-args -seed=931604865911`": false, "effaced": false,
	} {
		if got := ofCommit(row); got != want {
			t.Errorf("%s: of a commit: %v", row, got)
		}
	}
}

// A place is a file, or what stands in it.
type place struct{ file, text string }

var (
	goFile = regexp.MustCompile("`([\\w./-]+\\.go)`")
	// The word before the text tells what is there from what is put there.
	textIn = regexp.MustCompile("(?:(\\w+) )?`([^`]+)` (?:in `([^`]+)` )?(?:in |of |\\()`([\\w./-]+\\.go)`")
	// A hash has digits and letters, unlike a seed and a word.
	hash = regexp.MustCompile(`\b(?:\d+[a-f]|[a-f]+\d)[0-9a-f]*\b`)
)

// places returns the files that a row of the track record names, and what it
// says of them.
func places(row string) (all []place) {
	for _, found := range goFile.FindAllStringSubmatch(row, -1) {
		all = append(all, place{file: found[1]})
	}
	for _, found := range textIn.FindAllStringSubmatch(row, -1) {
		if function := found[3]; function != "" {
			all = append(all, place{found[4], function})
		}
		if found[1] != "with" {
			all = append(all, place{found[4], found[2]})
		}
	}
	return all
}

// ofCommit reports whether a row of the track record names a commit.
func ofCommit(row string) bool {
	return slices.ContainsFunc(hash.FindAllString(row, -1), func(word string) bool { return len(word) >= 7 })
}

// in reports whether the place is in one of the files, by their paths. A row
// gives as much of a path as tells its reader which file is meant.
func (p place) in(sources map[string]string) bool {
	for path, text := range sources {
		if (path == p.file || strings.HasSuffix(path, "/"+p.file)) && strings.Contains(text, p.text) {
			return true
		}
	}
	return false
}

// goFiles returns the text of each Go file by its path.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	walk(t, root, func(path string) {
		if filepath.Ext(path) != ".go" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = string(text)
	})
	return all
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
