package boundaries

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A source is the declarations of a package's test files, by their names.
type source struct {
	dir       string
	functions map[string]*ast.FuncDecl
	variables map[string]ast.Expr // their values
}

func newSource(dir string) source {
	return source{dir: dir, functions: map[string]*ast.FuncDecl{}, variables: map[string]ast.Expr{}}
}

func (s source) add(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				s.functions[d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						s.variables[name.Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// subtests returns the names that the subtests of a test have for certain, as
// package testing writes them: those that its own calls of Run give as strings,
// as the keys of the map or as the field "name" of the elements that they range
// over, or as the files of testdata that it reads.
func (s source) subtests(test string) map[string]bool {
	names := map[string]bool{}
	body := s.functions[test].Body
	ranges := map[string]*ast.RangeStmt{} // by the variables that they set
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok {
					ranges[id.Name] = n
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(n.Args) == 2 {
				for _, name := range s.namesOf(n.Args[0], ranges, body) {
					names[strings.ReplaceAll(name, " ", "_")] = true
				}
			}
		}
		return true
	})
	return names
}

// namesOf returns what the first argument of Run may be.
func (s source) namesOf(arg ast.Expr, ranges map[string]*ast.RangeStmt, body *ast.BlockStmt) (names []string) {
	switch arg := arg.(type) {
	case *ast.BasicLit:
		return texts(arg)
	case *ast.Ident:
		if r := ranges[arg.Name]; r != nil && isIdent(r.Key, arg.Name) {
			for _, e := range s.elements(r.X) {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					names = append(names, texts(kv.Key)...)
				}
			}
		}
	case *ast.SelectorExpr:
		if x, ok := arg.X.(*ast.Ident); ok && ranges[x.Name] != nil {
			for _, e := range s.elements(ranges[x.Name].X) {
				names = append(names, fieldsOf(e, arg.Sel.Name)...)
			}
		}
	case *ast.CallExpr:
		return s.filesRead(body)
	}
	return names
}

// elements returns the elements of a literal, or of the variable of the package
// that has it for its value.
func (s source) elements(e ast.Expr) []ast.Expr {
	if id, ok := e.(*ast.Ident); ok {
		e = s.variables[id.Name]
	}
	if lit, ok := e.(*ast.CompositeLit); ok {
		return lit.Elts
	}
	return nil
}

// filesRead returns the names, without what follows a dot, of the files that a
// function looks for by a literal pattern: the last argument of filepath.Glob,
// and of fs.Glob for those that are embedded.
func (s source) filesRead(body *ast.BlockStmt) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Glob" {
			for _, pattern := range texts(call.Args[len(call.Args)-1]) {
				files, _ := filepath.Glob(filepath.Join(s.dir, pattern))
				for _, file := range files {
					base, _, _ := strings.Cut(filepath.Base(file), ".")
					names = append(names, base)
				}
			}
		}
		return true
	})
	return names
}

// fieldsOf returns the strings that a literal, or one within it, gives to a
// field.
func fieldsOf(e ast.Expr, field string) (values []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok && isIdent(kv.Key, field) {
			values = append(values, texts(kv.Value)...)
		}
		return true
	})
	return values
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// texts returns the value of a string literal.
func texts(e ast.Expr) []string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return []string{s}
		}
	}
	return nil
}

// Otherwise a requirement could name any string of the package.
func TestOnlyWhatATestGivesToRunIsTheNameOfASubtest(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", `package x
var cases = map[string]func(){"of a variable": nil}
var list = []c{{cfg: c{name: "of a field", other: "no name"}}}
var unused = map[string]bool{"no subtest": true}
func TestX(t *testing.T) {
	t.Fatal("no subtest, but a message")
	t.Run("literal", func(t *testing.T) { t.Run("nested", nil) })
	for name, c := range map[string]string{"of a map": "no key"} { t.Run(name, func(t *testing.T) { f(c, "no argument") }) }
	for k, v := range map[string]string{"no name": "nor this"} { t.Run(v, nil) }
	for name := range cases { t.Run(name, nil) }
	for _, c := range list { t.Run(c.name, nil) }
}
func TestY(t *testing.T) { t.Run("of another", nil) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(".")
	s.add(file)
	got := slices.Sorted(maps.Keys(s.subtests("TestX")))
	want := []string{"literal", "nested", "of_a_field", "of_a_map", "of_a_variable"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
