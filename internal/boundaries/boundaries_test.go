// Package boundaries holds the modules of this repository to the rule between
// them. It is part of the root module, below whose directory are all the files
// that it reads: the go command then notices when one changes, and does not
// answer from its cache.
package boundaries

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// TestATaggedModuleUsesNoOthersInternals: a module with its own tags is built
// with whatever later version of its siblings a program asks for. Their public
// packages keep their promises then; their internal ones make none.
func TestATaggedModuleUsesNoOthersInternals(t *testing.T) {
	modules := findModules(t)
	for path, dir := range modules {
		if untagged(dir) {
			continue
		}
		for file, imports := range findImports(t, dir, modules) {
			for _, imported := range imports {
				owner := moduleOf(imported, modules)
				if owner == path || owner == "" || !isInternal(imported) {
					continue
				}
				t.Errorf("%s imports %s, which is internal to the module %s: "+
					"make it public if it is good enough, or put the code where it is used", file, imported, owner)
			}
		}
	}
}

// untagged reports whether the module in a directory is never tagged
// (docs/contributing/releasing.md): it is built from this tree alone.
func untagged(dir string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(dir), "/")
	return first == "test" || first == "tools" || first == "examples"
}

// findModules returns the directories of the modules by their paths.
func findModules(t *testing.T) map[string]string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^module (\S+)$`)
	modules := make(map[string]string)
	walk(t, root, func(path string) {
		if filepath.Base(path) != "go.mod" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if found := line.FindSubmatch(text); err == nil && found != nil {
			modules[string(found[1])] = dir
		}
	})
	if len(modules) < 5 {
		t.Fatalf("found the modules %v: is this not the repository?", modules)
	}
	return modules
}

// findImports returns what each file of the module in dir imports, tests
// included.
func findImports(t *testing.T, dir string, modules map[string]string) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	walk(t, filepath.Join(root, dir), func(path string) {
		if filepath.Ext(path) != ".go" || nested(dir, path, modules) {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = append(all[path], imported)
		}
	})
	return all
}

// nested reports whether a file below dir belongs to a module within.
func nested(dir, file string, modules map[string]string) bool {
	file, err := filepath.Rel(root, file)
	if err != nil {
		return false
	}
	for _, other := range modules {
		if other != dir && other != "." && within(other, dir) && within(filepath.ToSlash(file), other) {
			return true
		}
	}
	return false
}

// moduleOf returns the module of this repository that a package belongs to, or
// nothing.
func moduleOf(imported string, modules map[string]string) (module string) {
	for path := range modules {
		if within(imported, path) && len(path) > len(module) {
			module = path
		}
	}
	return module
}

func isInternal(imported string) bool {
	return slices.Contains(strings.Split(imported, "/"), "internal")
}

func within(path, parent string) bool {
	return parent == "." || path == parent || strings.HasPrefix(path, parent+"/")
}

// walk visits the files below dir, hidden directories and testdata left out.
func walk(t *testing.T, dir string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != dir && (strings.HasPrefix(name, ".") || name == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
