package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// A tree is a working tree of the repository.
type tree struct {
	root    string
	path    string // the root module's
	modules []*mod // the modules of go.work, in the order in which one requires another
}

// A mod is a module of the workspace.
type mod struct {
	dir      string // within the tree, with slashes
	path     string
	released bool
	requires []*mod // of the same tree
	file     *modfile.File
}

// internal are the directories whose modules nobody imports. They are never
// tagged.
var internal = [...]string{"examples", "test"}

func readTree(root string) (*tree, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return nil, err
	}
	t := &tree{root: root}
	byPath := map[string]*mod{}
	for _, use := range work.Use {
		m, err := t.read(use.Path)
		if err != nil {
			return nil, err
		}
		byPath[m.path] = m
		if m.dir == "." {
			t.path = m.path
		}
	}
	for _, m := range byPath {
		for _, r := range m.file.Require {
			if other := byPath[r.Mod.Path]; other != nil {
				m.requires = append(m.requires, other)
			}
		}
	}
	err = t.sort(byPath)
	return t, err
}

func (t *tree) read(dir string) (*mod, error) {
	m := &mod{dir: filepath.ToSlash(filepath.Clean(dir))}
	data, err := os.ReadFile(t.in(m.dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	if m.file, err = modfile.Parse(m.dir+"/go.mod", data, nil); err != nil {
		return nil, err
	}
	m.path = m.file.Module.Mod.Path
	first, _, _ := strings.Cut(m.dir, "/")
	m.released = !slices.Contains(internal[:], first)
	return m, nil
}

// in is a file of the tree.
func (t *tree) in(parts ...string) string {
	return filepath.Join(append([]string{t.root}, parts...)...)
}

// sort puts each module after those that it requires, and the command at the
// end, since it requires most.
func (t *tree) sort(byPath map[string]*mod) error {
	depth := map[*mod]int{}
	var visit func(m *mod, above int) (int, error)
	visit = func(m *mod, above int) (int, error) {
		if above > len(byPath) {
			return 0, fmt.Errorf("%s requires itself", m.path)
		}
		if d, ok := depth[m]; ok {
			return d, nil
		}
		d := 0
		for _, r := range m.requires {
			below, err := visit(r, above+1)
			if err != nil {
				return 0, err
			}
			if !r.released && m.released {
				return 0, fmt.Errorf("%s is released, and requires %s, which is not", m.path, r.path)
			}
			d = max(d, below+1)
		}
		depth[m] = d
		return d, nil
	}
	for _, m := range byPath {
		if _, err := visit(m, 0); err != nil {
			return err
		}
		t.modules = append(t.modules, m)
	}
	slices.SortFunc(t.modules, func(a, b *mod) int {
		return cmp.Or(cmp.Compare(depth[a], depth[b]), cmp.Compare(a.path, b.path))
	})
	return nil
}

// tag is the tag by which a proxy finds the module's version.
func (m *mod) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// checkVersion refuses a string that is not a version for modules of this major
// version.
func checkVersion(version string) error {
	switch {
	case !semver.IsValid(version) || semver.Canonical(version) != version || semver.Build(version) != "":
		return fmt.Errorf("%q is not a version: want one like v0.1.0", version)
	case module.IsPseudoVersion(version):
		return fmt.Errorf("%s is a pseudo-version", version)
	case semver.Compare(version, "v2.0.0") >= 0:
		return fmt.Errorf("%s: from v2 on the modules' paths have to end in the major version", version)
	}
	return nil
}

// setVersions has every module require the released ones at the version, those
// beside the workspace as well, and go.work find them in the tree.
func (t *tree) setVersions(files []string, version string) error {
	if err := checkVersion(version); err != nil {
		return err
	}
	for _, name := range files {
		if path.Base(name) == "go.mod" {
			if err := t.setVersion(name, version); err != nil {
				return err
			}
		}
	}
	return t.setReplacements(version)
}

// isReleased reports whether a module of that path is released.
func (t *tree) isReleased(name string) bool {
	return slices.ContainsFunc(t.modules, func(m *mod) bool { return m.released && m.path == name })
}

func (t *tree) setVersion(name, version string) error {
	data, err := os.ReadFile(t.in(name))
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, data, nil)
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		if t.isReleased(r.Mod.Path) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	formatted, err := file.Format()
	if err != nil || bytes.Equal(formatted, data) {
		return err
	}
	return os.WriteFile(t.in(name), formatted, 0o644)
}

func (t *tree) setReplacements(version string) error {
	data, err := os.ReadFile(t.in("go.work"))
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return err
	}
	for _, r := range work.Replace {
		if at := slices.Index(r.Syntax.Token, r.Old.Version); at >= 0 && t.isReleased(r.Old.Path) {
			r.Syntax.Token[at] = version // its place, so that the order stays
		}
	}
	return os.WriteFile(t.in("go.work"), modfile.Format(work.Syntax), 0o644)
}

// files are the files of the tree that git knows and that exist, with slashes.
func (t *tree) files(ctx context.Context) (names []string, err error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = t.root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(t.in(name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}
