package boundaries

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestConfigurationPageHasARowForEachField compares the tables of
// docs/reference/configuration.md with the exported fields of the types.
func TestConfigurationPageHasARowForEachField(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{} // the fields by type
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(text, -1) {
			rows[name] = append(rows[name], row[1])
		}
	}
	if len(rows) < 7 {
		t.Fatalf("%d types: has the page another form?", len(rows))
	}
	for _, name := range []string{"config.go", "roles.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || rows[spec.Name.Name] == nil && !strings.HasSuffix(spec.Name.Name, "Config") {
				return true
			}
			var want []string
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					if name.IsExported() {
						want = append(want, name.Name)
					}
				}
			}
			if got := rows[spec.Name.Name]; !slices.Equal(got, want) {
				t.Errorf("docs/reference/configuration.md has these rows for %s: %v, and %s these fields: %v", spec.Name, got, name, want)
			}
			delete(rows, spec.Name.Name)
			return true
		})
	}
	for name := range rows {
		t.Errorf("docs/reference/configuration.md describes %s, which is in neither file", name)
	}
}
