package boundaries

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// said is all text that the project's code can print, and the names in it.
type said struct {
	texts []string
	names map[string]bool
	// metrics is the documentation of package leaderprom, which lists them.
	metrics string
}

func whatIsSaid(t *testing.T) *said {
	t.Helper()
	s := &said{names: make(map[string]bool)}
	for _, dir := range []string{".", "internal/engine", "internal/leadership", "internal/machine", "internal/roles", "store", "store/natsstore", "fence", "probe", "tasks"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") {
				ast.Inspect(parse(t, path), s.hear)
			}
		}
	}
	metrics, err := os.ReadFile(filepath.Join(root, "leaderprom", "leaderprom.go"))
	if err != nil {
		t.Fatal(err)
	}
	s.metrics = string(metrics)
	return s
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *said) hear(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		s.names[n.Name] = true
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
			s.texts = append(s.texts, text)
		}
	}
	return true
}

// exists reports whether a quotation is a part of that text, or a name, with
// dots perhaps.
func (s *said) exists(quote string) bool {
	for _, text := range s.texts {
		if strings.Contains(text, quote) {
			return true
		}
	}
	if strings.HasPrefix(quote, "election_") {
		return strings.Contains(s.metrics, "\t"+quote+" ")
	}
	for name := range strings.SplitSeq(quote, ".") {
		if !s.names[name] {
			return false
		}
	}
	return true
}

// handbook returns the text of some pages below docs.
func handbook(t *testing.T, pages ...string) (text string) {
	t.Helper()
	for _, page := range pages {
		doc, err := os.ReadFile(filepath.Join(root, "docs", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		text += string(bytes.ReplaceAll(doc, []byte("\r\n"), []byte("\n")))
	}
	return text
}

var (
	quotation = regexp.MustCompile("`([^`]+)`")
	firstCell = regexp.MustCompile(`(?m)^\| ([^|]*) \|`)
	metric    = regexp.MustCompile("`(election_[a-z_]+)`")
)

func TestHandbookQuotesTheLibrary(t *testing.T) {
	s := whatIsSaid(t)
	text := handbook(t, "operate/runbook.md", "reference/logs.md")
	n := 0
	for _, row := range firstCell.FindAllStringSubmatch(text, -1) {
		for _, quote := range quotation.FindAllStringSubmatch(row[1], -1) {
			n++
			if !s.exists(quote[1]) {
				t.Errorf("the code does not contain %q", quote[1])
			}
		}
	}
	for _, name := range metric.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(name[1], "election_group_") || strings.HasPrefix(name[1], "election_observer_") {
			continue // the exporter's, of another module: test/labs/metrics holds its alerts to them
		}
		n++
		if !s.exists(name[1]) {
			t.Errorf("there is no metric %s", name[1])
		}
	}
	if n < 60 {
		t.Errorf("%d quotations were found: the tables are not read as they should be", n)
	}
}

func TestTheHandbookExplainsEveryNoteAndEveryEndOfATerm(t *testing.T) {
	text := handbook(t, "reference/logs.md")
	for name, value := range constants(parse(t, filepath.Join(root, "internal", "engine", "events.go")), "Note") {
		if !strings.Contains(text, "\n| `"+value+"` | ") {
			t.Errorf("no row for %s, %q", name, value)
		}
	}
	ends := 0
	values := constants(parse(t, filepath.Join(root, "internal", "machine", "event.go")), "Reason")
	maps.Copy(values, constants(parse(t, filepath.Join(root, "internal", "leadership", "leadership.go")), "Reason"))
	for _, reason := range endsOfTerms(t) {
		ends++
		if value := values[reason]; value == "" || !strings.Contains(text, "\n| `"+value+"` | ") {
			t.Errorf("no row for %s, %q", reason, value)
		}
	}
	if ends < 10 {
		t.Errorf("%d reasons were found in reason.go: it is not read as it should be", ends)
	}
}

// Readers of a log, a list or a label look up its reason there.
func TestTheHandbookExplainsEveryReason(t *testing.T) {
	text := handbook(t, "reference/logs.md")
	values := constants(parse(t, filepath.Join(root, "internal", "machine", "event.go")), "Reason")
	maps.Copy(values, constants(parse(t, filepath.Join(root, "internal", "leadership", "leadership.go")), "Reason"))
	if len(values) < 30 {
		t.Errorf("%d reasons were found: the files are not read as they should be", len(values))
	}
	for name, value := range values {
		if !strings.Contains(text, "\n| `"+value+"` | ") {
			t.Errorf("no row for %s, %q", name, value)
		}
	}
}

// constants returns the string constants whose names begin so.
func constants(file *ast.File, prefix string) (values map[string]string) {
	values = make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			values[spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
		}
		return true
	})
	return values
}

// endsOfTerms returns the reasons why a term ends, by their names in
// internal/machine and internal/leadership.
func endsOfTerms(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "reason.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || !strings.HasPrefix(group.Doc.Text(), "The reasons why a term ends") {
			continue
		}
		ast.Inspect(group, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				names = append(names, sel.Sel.Name)
			}
			return true
		})
	}
	return names
}
