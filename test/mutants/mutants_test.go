package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func repository(t *testing.T) string {
	t.Helper()
	_ = os.Getenv("LEADER_TREE") // the files are outside of what Go's test cache sees (see the Makefile)
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The text of each mutant occurs in the code once, and its replacement is Go.
// make mutants, which takes some minutes, shows that the mutants are caught.
func TestEveryMutantFindsItsPlace(t *testing.T) {
	root := repository(t)
	for _, m := range mutants() {
		files, err := mutate(root, m.edits)
		if err != nil {
			t.Errorf("bug %d, %q: %v", m.bug, m.name, err)
			continue
		}
		for name, text := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("bug %d, %q: %v", m.bug, m.name, err)
			}
		}
	}
}

func TestEveryBugHasAMutantOrAReason(t *testing.T) {
	have := map[int]bool{}
	for _, m := range mutants() {
		have[m.bug] = true
	}
	for _, c := range covers() {
		have[c.bug] = have[c.bug] || c.why != ""
	}
	for bug := 1; bug < len(bugs); bug++ {
		if !have[bug] || bugs[bug] == "" {
			t.Errorf("bug %d, %q, has no mutant", bug, bugs[bug])
		}
	}
}

// The page has a row for each mutant and for each reason why there is none, and
// the track record counts the mutants.
func TestThePagesCountTheMutants(t *testing.T) {
	root := repository(t)
	page := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, "docs", "evidence", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var want []string
	for _, m := range mutants() {
		want = append(want, m.name)
	}
	if count := fmt.Sprintf("all %d mutants", len(want)); !strings.Contains(page("track-record.md"), count) {
		t.Errorf("docs/evidence/track-record.md does not contain %q", count)
	}
	for _, c := range covers() {
		want = append(want, c.why)
	}
	text := page("mutants.md")
	for _, name := range want {
		if !strings.Contains(text, " | "+name+" | ") {
			t.Errorf("docs/evidence/mutants.md has no row for %q", name)
		}
	}
	if rows := len(regexp.MustCompile(`(?m)^\| \d+ \| `).FindAllString(text, -1)); rows != len(want) {
		t.Errorf("docs/evidence/mutants.md has %d rows, and should have %d", rows, len(want))
	}
}

// Each check names tests that there are.
func TestEveryCheckNamesTests(t *testing.T) {
	root := repository(t)
	checks := map[check]bool{}
	for _, m := range mutants() {
		checks[m.check] = true
	}
	for _, c := range covers() {
		checks[c.check] = true
	}
	for c := range checks {
		files, err := filepath.Glob(filepath.Join(root, c.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(c.run, "/")
		wanted := regexp.MustCompile(top)
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
				found = found || wanted.Match(m[1])
			}
		}
		if !found {
			t.Errorf("%s has no test %s", c.pkg, c.run)
		}
	}
}

func TestAMutantWhoseTextIsGoneIsAnError(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"three", "two"} {
		if _, err := mutate(root, []edit{{"a.go", old, "x"}}); err == nil {
			t.Errorf("the text %q was taken", old)
		}
	}
	files, err := mutate(root, []edit{{"a.go", "one", "1"}, {"a.go", "1 two", "2"}})
	if err != nil || files["a.go"] != "2 two" {
		t.Errorf("%v, %v", files, err)
	}
}

func TestTheCatcherIsTheTestThatFailed(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN   TestA\n--- FAIL: TestA (0.01s)\n":                                  "TestA",
		"=== RUN   TestSimulation\n  G1: two lead\n--- FAIL: TestSimulation (0.1s)\n": "TestSimulation, G1",
		"=== RUN   TestB\npanic: oh\n":                                                "TestB, crashed",
	} {
		if by := catcher(output); by != want {
			t.Errorf("caught by %q, want %q", by, want)
		}
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-bug", "99"}, {"-bug", "-1"}, {"x"}, {"-cases", "-bug", "1"}, {"-x"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: status %d, %q", args, code, errs.String())
		}
	}
}

// Each condition that is called harmless is there.
func TestHarmlessMutantsExist(t *testing.T) {
	root := repository(t)
	files, err := coreFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, file := range files {
		all, err := caseMutants(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			have[m.name] = true
		}
	}
	if len(have) < 30 {
		t.Errorf("%d conditions to mutate", len(have))
	}
	for name := range harmless {
		if !have[name] {
			t.Errorf("no mutant %q", name)
		}
	}
}

func TestTheRowsOfOneBugTakeThePlaceOfThoseBefore(t *testing.T) {
	page := "above\n" + beginMark + endMark + "below\n"
	all := []row{{bug: 1, what: "a", by: "TestA"}, {bug: 2, what: "b", by: "nobody"}, {bug: 3, what: "c", by: "TestC"}}
	page, err := merge(page, lines(all), 0)
	if err != nil {
		t.Fatal(err)
	}
	page, err = merge(page, lines([]row{{bug: 2, what: "d", by: "TestD"}, {bug: 2, what: "e", by: "TestE"}}), 2)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(page, "above\n"+beginMark) || !strings.HasSuffix(page, endMark+"below\n") || strings.Contains(page, "nobody") {
		t.Errorf("the page is now\n%s", page)
	}
	order := []string{"TestA", "TestD", "TestE", "TestC", "4 rows"}
	for _, want := range order {
		_, rest, ok := strings.Cut(page, want)
		if !ok {
			t.Fatalf("no %s, or in the wrong place, in\n%s", want, page)
		}
		page = rest
	}
}
