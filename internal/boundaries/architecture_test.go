package boundaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheArchitecturePageNamesEveryPackage: who looks for the room of a change
// begins there. A package that is absent is one that nobody finds.
func TestTheArchitecturePageNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		name := dir.Name()
		if dir.IsDir() && !strings.Contains(string(page), "internal/"+name) && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/architecture.md does not name internal/%s", name)
		}
	}
}
