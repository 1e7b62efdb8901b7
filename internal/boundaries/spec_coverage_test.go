package boundaries

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A requirement is one row of docs/evidence/coverage.md.
type requirement struct {
	section, number int
	text            string
	tests           []namedTest
}

// A namedTest is where a requirement is shown: "./test/elections TestX/sub".
type namedTest struct{ dir, name string }

func (n namedTest) String() string { return n.dir + " " + n.name }

var (
	sectionHeading = regexp.MustCompile(`^## (\d+)\. `)
	requirementRow = regexp.MustCompile(`^\| (\d+)\.(\d+) \| (.+?) \| (.*) \|$`)
	testReference  = regexp.MustCompile("`(\\.[^ `]*) ([^`]+)`")
)

// TestEveryRequirementNamesTestsThatExist reads docs/evidence/coverage.md: its
// sections and rows are numbered without a gap, each row names at least one
// test unless it is marked as not offered, and each named test is in the files
// of its package.
func TestEveryRequirementNamesTestsThatExist(t *testing.T) {
	rows := requirements(t)
	if len(rows) < 100 {
		t.Fatalf("%d requirements: the table is not read as it is meant", len(rows))
	}
	packages := testPackages{}
	for _, r := range rows {
		if len(r.tests) == 0 && !strings.Contains(r.text, "**Not offered**") {
			t.Errorf("%d.%d names no test: %s", r.section, r.number, r.text)
		}
		for _, n := range r.tests {
			if err := packages.find(n); err != nil {
				t.Errorf("%d.%d: %v", r.section, r.number, err)
			}
		}
	}
}

// requirements reads the table and checks its numbers.
func requirements(t *testing.T) (rows []requirement) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "evidence", "coverage.md"))
	if err != nil {
		t.Fatal(err)
	}
	section, number := 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := sectionHeading.FindStringSubmatch(line); m != nil {
			section, number = section+1, 0
			if m[1] != strconv.Itoa(section) {
				t.Errorf("section %s where %d is due", m[1], section)
			}
			continue
		}
		m := requirementRow.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| no.") && !strings.HasPrefix(line, "| ---") {
				t.Errorf("a row of another form: %s", line)
			}
			continue
		}
		number++
		if m[1] != strconv.Itoa(section) || m[2] != strconv.Itoa(number) {
			t.Errorf("row %s.%s where %d.%d is due", m[1], m[2], section, number)
		}
		r := requirement{section: section, number: number, text: m[3]}
		for _, ref := range testReference.FindAllStringSubmatch(m[4], -1) {
			r.tests = append(r.tests, namedTest{dir: ref[1], name: ref[2]})
		}
		rows = append(rows, r)
	}
	return rows
}

// testPackages are the sources of the directories that were looked at.
type testPackages map[string]testPackage

type testPackage struct {
	source
	err error
}

func (p testPackages) find(n namedTest) error {
	pkg, read := p[n.dir]
	if !read {
		pkg = readTestPackage(n.dir)
		p[n.dir] = pkg
	}
	top, sub, _ := strings.Cut(n.name, "/")
	switch {
	case pkg.err != nil:
		return fmt.Errorf("%v: %w", n, pkg.err)
	case pkg.functions[top] == nil || !isTestName(top):
		return fmt.Errorf("%v: there is no such test", n)
	case sub == "":
		return nil
	}
	names := pkg.subtests(top)
	if names[sub] {
		return nil
	}
	for part := range strings.SplitSeq(sub, "/") {
		if !names[part] {
			return fmt.Errorf("%v: it runs no subtest that is called %q; it has %q", n, part, slices.Sorted(maps.Keys(names)))
		}
	}
	return nil
}

func readTestPackage(dir string) testPackage {
	pkg := testPackage{source: newSource(filepath.Join(root, dir))}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		pkg.err = fmt.Errorf("no test files in %s", dir)
		return pkg
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			pkg.err = err
			return pkg
		}
		pkg.add(parsed)
	}
	return pkg
}

func isTestName(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
