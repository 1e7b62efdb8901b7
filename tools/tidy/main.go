// Command tidy runs go mod tidy in every module of the workspace, and either
// shows what it would change (the default) or writes it (-write).
//
// Plain go mod tidy cannot serve here. The modules of the workspace require one
// another without a replace directive, because go install refuses a module that has
// one, and tidy ignores go.work: it would look for versions that are not published
// yet. So each module is tidied in a copy of its go.mod in which the others are
// replaced by their directories, and the replacements are dropped again.
//
// A module's go.sum therefore holds no sums of its siblings.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unversioned is the version that tidy gives to a replaced module which nothing required before.
const unversioned = "v0.0.0-00010101000000-000000000000"

// unpublished is the version by which the modules require one another until the first release.
const unpublished = "v0.0.0"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run exits with 0 if every module is tidy or was made so, 1 if one is not, 2 on a failure.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tidy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("C", ".", "the `directory` of go.work")
	write := flags.Bool("write", false, "write the changes instead of showing them")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	work, modules, err := workspace(*root)
	if err != nil {
		fmt.Fprintln(stderr, "tidy:", err)
		return 2
	}
	code := 0
	for _, line := range work.lacks(modules) {
		fmt.Fprintln(stderr, "tidy: go.work lacks the line:", line)
		code = 1
	}
	for i, m := range append(modules, flagged(*root, flags.Args())...) {
		siblings := modules
		if i >= len(modules) {
			siblings = nil // beside the workspace: a module there says itself where it finds the others
		}
		changed, err := m.tidy(siblings, *write, stdout)
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "tidy: %s: %v\n", m.path, err)
			code = 2
		case changed && !*write:
			fmt.Fprintf(stderr, "tidy: %s is not tidy: run make tidy\n", m.path)
			code = max(code, 1)
		}
	}
	return code
}

// A module is one of the workspace, or one beside it.
type module struct {
	path, dir string
	use       string // its directory as go.work states it
	file      modfile
}

// A workfile is what go work edit -json tells of go.work.
type workfile struct {
	Use     []struct{ DiskPath string }
	Replace []struct {
		Old struct{ Path, Version string }
	}
}

// workspace returns go.work and the modules that it lists.
func workspace(root string) (work workfile, modules []module, err error) {
	out, err := goCommand(root, "work", "edit", "-json", "go.work")
	if err != nil {
		return work, nil, err
	}
	if err := json.Unmarshal(out, &work); err != nil {
		return work, nil, fmt.Errorf("go.work: %w", err)
	}
	for _, use := range work.Use {
		m, err := moduleAt(filepath.Join(root, use.DiskPath))
		if err != nil {
			return work, nil, err
		}
		m.use = use.DiskPath
		modules = append(modules, m)
	}
	return work, modules, nil
}

// lacks returns the replacements that go.work should have. To use a module is not
// enough where another requires it at a version that nobody published: once the go
// command loads the whole graph it asks for that version's go.mod.
func (w workfile) lacks(modules []module) (lines []string) {
	replaced := map[string]bool{}
	for _, r := range w.Replace {
		if r.Old.Version == unpublished {
			replaced[r.Old.Path] = true
		}
	}
	for _, s := range modules {
		if !replaced[s.path] && requiredUnpublished(s.path, modules) {
			lines = append(lines, fmt.Sprintf("replace %s %s => %s", s.path, unpublished, s.use))
		}
	}
	return lines
}

func requiredUnpublished(path string, modules []module) bool {
	for _, m := range modules {
		for _, r := range m.file.Require {
			if r.Path == path && r.Version == unpublished {
				return true
			}
		}
	}
	return false
}

// flagged returns the modules in the directories named on the command line, which
// the workspace does not hold.
func flagged(root string, dirs []string) []module {
	var modules []module
	for _, dir := range dirs {
		if m, err := moduleAt(filepath.Join(root, dir)); err == nil {
			modules = append(modules, m)
		}
	}
	return modules
}

// A modfile is what go mod edit -json tells of a go.mod.
type modfile struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
}

func moduleAt(dir string) (module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return module{}, err
	}
	f, err := readModfile(dir, "go.mod")
	return module{path: f.Module.Path, dir: dir, file: f}, err
}

func readModfile(dir, name string) (modfile, error) {
	var f modfile
	out, err := goCommand(dir, "mod", "edit", "-json", name)
	if err != nil {
		return f, err
	}
	err = json.Unmarshal(out, &f)
	return f, err
}

// tidy tells whether the module's go.mod or go.sum differ from what they should be.
func (m module) tidy(siblings []module, write bool, stdout io.Writer) (changed bool, err error) {
	tmp, err := os.MkdirTemp("", "tidy")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()

	if err := m.tidyCopy(tmp, siblings); err != nil {
		return false, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		differs, err := settle(filepath.Join(m.dir, name), filepath.Join(tmp, name), write, stdout)
		if err != nil {
			return changed, err
		}
		changed = changed || differs
	}
	return changed, nil
}

// tidyCopy leaves the tidy go.mod and go.sum in tmp.
func (m module) tidyCopy(tmp string, siblings []module) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(m.dir, name), filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	copied := filepath.Join(tmp, "go.mod")
	var replace, drop []string
	for _, s := range siblings {
		if s.path != m.path {
			replace = append(replace, "-replace="+s.path+"="+s.dir)
			drop = append(drop, "-dropreplace="+s.path)
		}
	}
	if err := edit(m.dir, copied, replace); err != nil {
		return err
	}
	if _, err := goCommand(m.dir, "mod", "tidy", "-modfile="+copied); err != nil {
		return err
	}
	version, err := placeholders(m.dir, copied)
	if err != nil {
		return err
	}
	return edit(m.dir, copied, append(drop, version...))
}

// placeholders returns the edits that give newly required siblings the version that stands for none.
func placeholders(dir, file string) ([]string, error) {
	f, err := readModfile(dir, file)
	var edits []string
	for _, r := range f.Require {
		if r.Version == unversioned {
			edits = append(edits, "-require="+r.Path+"@"+unpublished)
		}
	}
	return edits, err
}

func edit(dir, file string, edits []string) error {
	if len(edits) == 0 {
		return nil
	}
	_, err := goCommand(dir, append(append([]string{"mod", "edit"}, edits...), file)...)
	return err
}

// settle makes have equal to want, or shows how they differ.
func settle(have, want string, write bool, stdout io.Writer) (differs bool, err error) {
	old, err := readOrEmpty(have)
	if err != nil {
		return false, err
	}
	tidied, err := readOrEmpty(want)
	if err != nil || bytes.Equal(old, tidied) {
		return false, err
	}
	if write {
		return true, os.WriteFile(have, tidied, 0o644)
	}
	return true, diff(have, want, stdout)
}

// diff lets git show the difference: it is there wherever this repository is.
func diff(have, want string, stdout io.Writer) error {
	if _, err := os.Stat(have); errors.Is(err, os.ErrNotExist) {
		have = os.DevNull
	}
	cmd := exec.Command("git", "--no-pager", "diff", "--no-index", "--no-color", "--", have, want)
	cmd.Stdout, cmd.Stderr = stdout, stdout
	var exit *exec.ExitError
	err := cmd.Run()
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // they differ, which is what git says by 1
	}
	return err
}

// readOrEmpty reads a file; one that does not exist is empty, as is the go.sum of a
// module that requires nothing.
func readOrEmpty(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func copyFile(from, to string) error {
	data, err := readOrEmpty(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// goCommand runs the go command in dir and returns its standard output. GOWORK is off:
// a module must be right for those who use it without this workspace.
func goCommand(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
