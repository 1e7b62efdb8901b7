package security_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// messages returns the texts with which natsstore.Check warns and refuses, read
// from its source.
func messages(t *testing.T) (warnings, refusals []string) {
	t.Helper()
	for _, name := range []string{"check.go", "stream.go", "witness.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "store", "natsstore", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, c := range formats(f) {
				switch {
				case c.by == "warn", c.by == "Sprintf" && (f.Name.Name == "unread" || f.Name.Name == "givesUp" || f.Name.Name == "mirrored"):
					warnings = append(warnings, c.text)
				case c.by == "fault", c.by == "Errorf" && (f.Name.Name == "checkSubjects" || f.Name.Name == "neverItself"):
					refusals = append(refusals, c.text)
				}
			}
		}
	}
	return warnings, refusals
}

type format struct{ by, text string }

// formats returns the constant texts that a function hands to others, each with
// the other's name.
func formats(f *ast.FuncDecl) []format {
	var all []format
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		for _, arg := range call.Args {
			if text := constant(arg); text != "" {
				all = append(all, format{name, text})
			}
		}
		return true
	})
	return all
}

// constant returns the value of a text, or of a sum of texts.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return constant(e.X) + constant(e.Y)
		}
	}
	return ""
}

func TestEachWarningAndRefusalIsExplained(t *testing.T) {
	t.Parallel()
	warnings, refusals := messages(t)
	for heading, texts := range map[string][]string{"## What the warnings mean": warnings, "## What is refused": refusals} {
		if len(texts) < 5 {
			t.Fatalf("only %d texts for %q: %q", len(texts), heading, texts)
		}
		explained := map[string]int{}
		for _, row := range table(t, heading) {
			key, found := strings.Trim(row[0], "`"), 0
			for _, text := range texts {
				if strings.Contains(text, key) {
					explained[text]++
					found++
				}
			}
			if found != 1 {
				t.Errorf("%q of the document is in %d texts", key, found)
			}
		}
		for _, text := range texts {
			if explained[text] != 1 {
				t.Errorf("%q has %d rows under %q", text, explained[text], heading)
			}
		}
	}
}
