package boundaries

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// largestKnot is how many files of a package may use one another, each through
// others, so that none of them can be understood alone.
const largestKnot = 6

// TestNoPackageIsAKnot: a file that is used by what it uses can only be read
// together with it. Parts of a package know one another in one direction, and
// what they need of those above is handed to them.
func TestNoPackageIsAKnot(t *testing.T) {
	for dir, files := range packages(t) {
		for _, knot := range knots(usesBetween(t, files)) {
			if len(knot) > largestKnot {
				t.Errorf("%s: %d files use one another, and %d may: %s", dir, len(knot), largestKnot, strings.Join(knot, " "))
			}
		}
	}
}

// packages returns the shipped Go files of each directory of the checkout.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && builtHere(path):
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			dir = filepath.ToSlash(dir)
			found[dir] = append(found[dir], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// builtHere reports whether a file's name does not tie it to another system.
func builtHere(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), ".go")
	for _, system := range []string{"windows", "darwin", "linux", "unix", "other"} {
		if strings.HasSuffix(name, "_"+system) && system != runtime.GOOS {
			return false
		}
	}
	return name != "on" // for a build tag which tests set
}

// A noImporter knows no package. A file's use of other packages does not matter
// here, and its use of its own package is found without an importer.
type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// usesBetween returns, for each file, the other files of the package whose
// definitions it uses: functions, types, methods, fields, constants, variables.
func usesBetween(t *testing.T, paths []string) map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImporter{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check("p", fset, files, info)
	uses := map[string]map[string]bool{}
	for ident, obj := range info.Uses {
		if obj.Pkg() != pkg || !obj.Pos().IsValid() {
			continue
		}
		from, to := fset.File(ident.Pos()).Name(), fset.File(obj.Pos()).Name()
		if from != to {
			if uses[from] == nil {
				uses[from] = map[string]bool{}
			}
			uses[from][to] = true
		}
	}
	return uses
}

// knots returns the sets of files each of which reaches all others of its set.
func knots(uses map[string]map[string]bool) (all [][]string) {
	reach := map[string]map[string]bool{}
	var visit func(from, at string)
	visit = func(from, at string) {
		for to := range uses[at] {
			if !reach[from][to] {
				reach[from][to] = true
				visit(from, to)
			}
		}
	}
	for file := range uses {
		reach[file] = map[string]bool{}
		visit(file, file)
	}
	seen := map[string]bool{}
	for file := range uses {
		if seen[file] || !reach[file][file] {
			continue
		}
		var knot []string
		for other := range uses {
			if reach[file][other] && reach[other][file] {
				seen[other] = true
				knot = append(knot, filepath.Base(other))
			}
		}
		slices.Sort(knot)
		all = append(all, knot)
	}
	return all
}
