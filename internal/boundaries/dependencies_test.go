package boundaries

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	ownModule  = "github.com/seed-ff2cb582/leader"
	natsModule = "github.com/nats-io/nats.go"
)

// A listedPackage is a package as go list -json describes it.
type listedPackage struct {
	ImportPath   string
	Standard     bool
	Imports      []string // of the shipped files
	TestImports  []string
	XTestImports []string
	Deps         []string // of the shipped files, through everything that they import
}

// TestDependencies holds the project to its dependency policy. Every dependency
// of the root module becomes one of each program that elects a leader, with its
// updates, its vulnerabilities and its conflicts; so each rule is a failure
// here and not a custom.
func TestDependencies(t *testing.T) {
	packages := goList(t, "./...")
	t.Run("the root module requires nats.go alone", func(t *testing.T) { requiresNATSAlone(t) })
	t.Run("no package of the root module imports another module", func(t *testing.T) { importsNATSAlone(t, packages) })
	t.Run("the contract and the core need the standard library alone", func(t *testing.T) { needStdAlone(t) })
	t.Run("the core has no clock, no goroutine and no I/O", func(t *testing.T) { coreIsPure(t, packages) })
	t.Run("shipped code does not contain testing", func(t *testing.T) { shipsNoTesting(t, packages) })
	t.Run("no module that is tagged has a replace directive", func(t *testing.T) { replacesNothing(t) })
}

func requiresNATSAlone(t *testing.T) {
	mod := readModfile(t, filepath.Join(root, "go.mod"))
	for _, r := range mod.Require {
		if !r.Indirect && r.Path != natsModule {
			t.Errorf("go.mod requires %s: the root module requires %s and nothing else, tests included; "+
				"code that needs more belongs to a separate module (test/ for servers, a nested module for an adapter)", r.Path, natsModule)
		}
	}
}

func importsNATSAlone(t *testing.T, packages []listedPackage) {
	standard := standardLibrary(t)
	for _, p := range packages {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if !standard[path] && !within(path, ownModule) && !within(path, natsModule) {
				t.Errorf("%s imports %s: the root module may import the standard library, itself and %s", p.ImportPath, path, natsModule)
			}
		}
	}
}

// needStdAlone looks at everything that is linked in, not at direct imports
// only.
func needStdAlone(t *testing.T) {
	for pattern, reason := range map[string]string{
		"./store":               "another system's store must pull in nothing of this module but these few types",
		"./internal/machine":    "the core decides and does nothing, so that every world can be explored",
		"./internal/record":     "every candidate decodes what strangers wrote: as little code as possible",
		"./tasks/internal/core": "the dispatcher and the worker decide and do nothing, so that a simulation shows what they do",
		"./tasks/wire":          "another transport or store of tasks must pull in nothing of this module but these types",
	} {
		if !hasGoFiles(t, pattern) {
			continue
		}
		for _, p := range goList(t, "-deps", pattern) {
			if !p.Standard && !within(p.ImportPath, ownModule) {
				t.Errorf("%s needs %s, and may need the standard library alone: %s", pattern, p.ImportPath, reason)
			}
		}
	}
}

func coreIsPure(t *testing.T, packages []listedPackage) {
	impure := []string{"context", "crypto/rand", "io", "log", "log/slog", "math/rand", "math/rand/v2", "net", "os", "runtime", "sync", "sync/atomic"}
	for _, p := range packages {
		if p.ImportPath != ownModule+"/internal/machine" && p.ImportPath != ownModule+"/tasks/internal/core" {
			continue
		}
		for _, path := range p.Imports {
			if slices.Contains(impure, path) {
				t.Errorf("%s imports %s: time, randomness and outcomes come in with events, "+
					"and everything that acts goes out as an action", p.ImportPath, path)
			}
		}
	}
}

func shipsNoTesting(t *testing.T, packages []listedPackage) {
	for _, p := range packages {
		// These are made to be called from other people's tests.
		if slices.Contains([]string{ownModule + "/store/storetest", ownModule + "/leadertest"}, p.ImportPath) {
			continue
		}
		if slices.Contains(p.Deps, "testing") {
			t.Errorf("%s brings in testing, with its flags, through its shipped files: "+
				"only store/storetest and leadertest may; move the helper to a _test.go file", p.ImportPath)
		}
	}
}

func replacesNothing(t *testing.T) {
	for _, file := range modfiles(t) {
		// These are never tagged, and no part of the workspace that would join
		// them to the others.
		switch filepath.Dir(fromRoot(t, file)) {
		case "examples/operator", "test/labs/compare":
			continue
		}
		if mod := readModfile(t, file); len(mod.Replace) > 0 || len(mod.Exclude) > 0 {
			t.Errorf("%s has a replace or exclude directive: go install refuses such a module, and a user's build "+
				"ignores them; go.work joins the modules", file)
		}
	}
}

// TestTestsSleepInVirtualTimeOnly: a test that sleeps to wait is slow on a fast
// machine and wrong on a slow one. It waits in virtual time, or for an event
// with a deadline.
func TestTestsSleepInVirtualTimeOnly(t *testing.T) {
	for _, file := range testFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if sleeps(parsed) && !imports(parsed, "testing/synctest") {
			t.Errorf("%s calls time.Sleep and does not import testing/synctest: "+
				"wait in virtual time, or on an event with a deadline", file)
		}
	}
}

func sleeps(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			pkg, ok := sel.X.(*ast.Ident)
			found = found || ok && pkg.Name == "time"
		}
		return !found
	})
	return found
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+path+`"` })
}

// testFiles returns the test files of all modules.
func testFiles(t *testing.T) []string {
	return filesOf(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// modfiles returns the go.mod files of all modules but the tools', which nobody
// installs.
func modfiles(t *testing.T) []string {
	files := filesOf(t, func(name string) bool { return name == "go.mod" })
	return slices.DeleteFunc(files, func(file string) bool { return fromRoot(t, file) == "tools/go.mod" })
}

func filesOf(t *testing.T, want func(name string) bool) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && want(d.Name()):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fromRoot returns the path of a file as seen from the root, with slashes.
func fromRoot(t *testing.T, file string) string {
	t.Helper()
	name, err := filepath.Rel(root, file)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(name)
}

func hasGoFiles(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) > 0
}

func standardLibrary(t *testing.T) map[string]bool {
	t.Helper()
	standard := map[string]bool{"C": true}
	for path := range strings.FieldsSeq(string(goCommand(t, "list", "std"))) {
		standard[path] = true
	}
	return standard
}

type modfile struct {
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace, Exclude []json.RawMessage
}

func readModfile(t *testing.T, file string) (mod modfile) {
	t.Helper()
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json", fromRoot(t, file)), &mod); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return mod
}

func goList(t *testing.T, args ...string) (packages []listedPackage) {
	t.Helper()
	out := goCommand(t, append([]string{"list", "-e", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,Deps"}, args...)...)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// goCommand runs the go command as somebody does who has the root module
// without the workspace.
func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}
