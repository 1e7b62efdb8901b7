package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	here    = "../../.."
	version = "v0.1.0-next" // as make release-snapshot has it: what one compiles the other need not
)

// TestTheModulesAreWhatAProxyWouldServe sets all modules to a version, in a
// copy, serves them from a directory as a proxy will once they are tagged, and
// uses them as those do who have neither go.work nor replace directives.
func TestTheModulesAreWhatAProxyWouldServe(t *testing.T) {
	if testing.Short() {
		t.Skip("asks the go command about every module")
	}
	m := served(t)
	t.Run("Versions", func(t *testing.T) { everywhere(t, m) })
	t.Run("Workspace", func(t *testing.T) { development(t, m) })
	t.Run("Resolve", func(t *testing.T) {
		for _, mod := range m.released() {
			if _, err := m.resolve(t.Context(), mod); err != nil {
				t.Errorf("%s: %v", mod.path, err)
			}
		}
	})
	t.Run("Together", func(t *testing.T) { together(t, m) })
}

// together requires all modules in one, and demands that each has something to
// import there, but for the command.
func together(t *testing.T, m *market) *somebody {
	t.Helper()
	by, err := m.require(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	modules, err := output(t.Context(), by.dir, by.env, "go", slices.Concat([]string{"list", "-f", "{{.Module}}"}, by.packages)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range m.released() {
		if has := strings.Contains(modules+"\n", mod.path+" "+m.version+"\n"); has == (mod.dir == "cmd/leader") {
			t.Errorf("packages to import in %s: %v", mod.path, has)
		}
	}
	return by
}

// served returns a copy of all modules at a version, as a proxy serves them.
func served(t *testing.T) *market {
	t.Helper()
	tree, err := readTree(here)
	if err != nil {
		t.Fatal(err)
	}
	m, err := open(t.Context(), tree, version, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTheProgramThatAUserInstalls installs the command as a user does, and
// makes the list of its modules and the image, as goreleaser has them made. It
// runs beside [TestTheSnapshot], since go install compiles what goreleaser
// compiles, and make test nothing of that: it has the compiler do less.
func TestTheProgramThatAUserInstalls(t *testing.T) {
	if *snapshotDir == "" {
		t.Skip("SKIPPED: make release-snapshot runs it")
	}
	m := served(t)
	program, err := m.install(t.Context(), runtime.GOOS+"/"+runtime.GOARCH, stripped)
	if err != nil {
		t.Fatal(err)
	}
	says(t, version, program)
	file := filepath.Join(t.TempDir(), "list.json")
	if code, said := runRelease(t, "list", program, file); code != 0 {
		t.Fatalf("exit status %d: %s", code, said)
	}
	t.Run("List", func(t *testing.T) { list(t, file, version) })
	if code, said := runRelease(t, "list", file, file+".2"); code != 1 || said == "" {
		t.Errorf("for a file that is not a program: exit status %d", code)
	}
	if runtime.GOOS != "linux" {
		t.Skip("images are of linux")
	}
	image := filepath.Join(t.TempDir(), "image.tar")
	if code, said := runRelease(t, "-version", version, "image", program, "linux", runtime.GOARCH, image); code != 0 {
		t.Fatalf("exit status %d: %s", code, said)
	}
	t.Run("Image", func(t *testing.T) { loaded(t, image, version) })
	t.Run("Container", func(t *testing.T) { contained(t, image, version) })
}

// TestAProgramMayRequireEveryModule compiles all public packages in one
// program, as a user of several modules does. It is next to
// [TestTheProgramThatAUserInstalls] for the same reason.
func TestAProgramMayRequireEveryModule(t *testing.T) {
	if *snapshotDir == "" {
		t.Skip("SKIPPED: make release-snapshot runs it")
	}
	if err := together(t, served(t)).build(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// runRelease returns the exit status, and the standard error.
func runRelease(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out, stderr bytes.Buffer
	code = run(t.Context(), args, nil, &out, &stderr)
	return code, stderr.String()
}

// development has the go command find everything in the tree itself, as those
// do who work on it after the versions were set.
func development(t *testing.T, m *market) {
	for dir, work := range map[string]string{"cmd/leader": m.tree.in("go.work"), "test/labs/compare": "off"} {
		env := append(os.Environ(), "GOWORK="+work, "GOFLAGS=-mod=readonly")
		if _, err := output(t.Context(), m.tree.in(dir), env, "go", "list", "-deps", "./..."); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// everywhere holds the versions that were set against the files.
func everywhere(t *testing.T, m *market) {
	files, err := m.tree.filesBelow()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		data, err := os.ReadFile(m.tree.in(name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			for i, path := range fields {
				if i+1 == len(fields) || !m.tree.isReleased(path) || fields[0] == "module" || fields[i+1] == "=>" {
					continue
				}
				found++
				if fields[i+1] != version {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("%d requirements and replacements of this project's modules", found)
	}
}

// filesBelow are the files of the tree that name versions. A copy has no git.
func (t *tree) filesBelow() (names []string, err error) {
	err = fs.WalkDir(os.DirFS(t.root), ".", func(path string, _ fs.DirEntry, err error) error {
		if base := filepath.Base(path); base == "go.mod" || base == "go.work" {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

func TestPlan(t *testing.T) {
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-root", here, "-version", "v0.1.0", "plan"}, nil, &out, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	tags := strings.Fields(out.String())
	if tags[0] != "v0.1.0" || slices.Index(tags, "cmd/leader/v0.1.0") < slices.Index(tags, "store/redisstore/v0.1.0") {
		t.Errorf("%q", tags)
	}
	for _, tag := range tags {
		if strings.HasPrefix(tag, "test/") || strings.HasPrefix(tag, "examples/") {
			t.Errorf("%s would be tagged", tag)
		}
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"publish"}, {"plan", "twice"}, {"list"}, {"list", "program"}, {"image", "program", "linux", "amd64"},
		{"-version", "0.1.0", "plan"}, {"-version", "v0.1", "plan"}, {"-version", "v2.0.0", "plan"},
		{"-version", "v0.0.0-20260102030405-abcdefabcdef", "plan"}, {"-fast", "plan"},
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"-root", here}, args...), nil, &out, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: exit status %d", args, code)
		}
	}
}

func TestAReleasedModuleRequiresNoneThatIsNot(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.work": "go 1.26.0\nuse (\n\t.\n\t./a\n\t./test\n)\n", "go.mod": "module x.org/m\n\ngo 1.26.0\n",
		"a/go.mod":    "module x.org/m/a\n\ngo 1.26.0\n\nrequire x.org/m/test v0.0.0\n",
		"test/go.mod": "module x.org/m/test\n\ngo 1.26.0\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readTree(dir); err == nil || !strings.Contains(err.Error(), "x.org/m/a is released, and requires x.org/m/test") {
		t.Errorf("%v", err)
	}
}
