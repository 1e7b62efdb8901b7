package boundaries

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheArchitecturePageNamesEveryPackage: who looks for the room of a change
// begins there. A package that is absent is one that nobody finds.
func TestTheArchitecturePageNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contributing", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"internal", "cmd/leader/internal"} {
		dirs, err := os.ReadDir(filepath.Join(root, in))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			name := dir.Name()
			if dir.IsDir() && !strings.Contains(string(page), in+"/"+name) && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/contributing/architecture.md does not name %s/%s", in, name)
			}
		}
	}
}

// TestTheArchitecturePageNamesEveryPublicPackage: a program's author looks
// there for what there is.
func TestTheArchitecturePageNamesEveryPublicPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contributing", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dir := range packages(t) {
		if dir == "." || !published(dir) {
			continue
		}
		seen++
		if !strings.Contains(string(page), "`"+dir+"`") {
			t.Errorf("docs/contributing/architecture.md does not name %s", dir)
		}
	}
	if seen < 30 {
		t.Fatalf("%d packages: is this not the repository?", seen)
	}
}

// TestDocGoListsEveryFileOfTheRoot: the list is the order in which a stranger
// reads the package.
func TestDocGoListsEveryFileOfTheRoot(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	_, list, _ := strings.Cut(string(text), "\npackage leader\n")
	for _, line := range regexp.MustCompile(`(?m)^//\t(\S+\.go) +\S`).FindAllStringSubmatch(list, -1) {
		listed = append(listed, line[1])
	}
	files := []string{}
	for _, path := range packages(t)["."] {
		if file := filepath.Base(path); file != "doc.go" {
			files = append(files, file)
		}
	}
	for _, file := range files {
		if !slices.Contains(listed, file) {
			t.Errorf("doc.go does not list %s", file)
		}
	}
	for _, file := range listed {
		if !slices.Contains(files, file) {
			t.Errorf("doc.go lists %s, which is not a file of the package", file)
		}
	}
}
