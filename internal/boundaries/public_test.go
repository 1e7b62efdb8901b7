package boundaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryPublicPackageHasAnExample: what others import shows how it is used,
// in the place where they look.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	shown := make(map[string]bool) // by the public directory
	walk(t, root, func(path string) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if filepath.Ext(path) != ".go" || err != nil || !public(filepath.ToSlash(dir)) {
			return
		}
		shown[dir] = shown[dir] || strings.HasSuffix(path, "_test.go") && hasExample(t, path)
	})
	if len(shown) < 20 {
		t.Fatalf("%d packages: is this not the repository?", len(shown))
	}
	for dir, ok := range shown {
		if !ok {
			t.Errorf("%s has no Example", dir)
		}
	}
}

// public reports whether others import the packages of a directory.
func public(dir string) bool {
	switch {
	case untagged(dir), isInternal(dir), within(dir, "cmd"):
		return false
	case dir == "store": // a contract, whose implementations have examples
		return false
	case within(dir, "store/storetest/judge"): // for tests; that of store/storetest shows how
		return false
	}
	return true
}

func hasExample(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "\nfunc Example")
}
