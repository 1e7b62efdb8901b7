package boundaries

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryExportedIdentifierIsDocumented requires a comment also where the
// linter (revive's rule exported) does not: on a struct's fields, an
// interface's methods, a group of names without its own comment. A comment may
// be above a run of names, which ends at an empty line.
func TestEveryExportedIdentifierIsDocumented(t *testing.T) {
	seen := 0
	walk(t, root, func(path string) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || err != nil || !published(filepath.ToSlash(dir)) {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		u := undocumented{files: files}
		for _, decl := range file.Decls {
			u.declaration(decl)
		}
		seen += u.seen
		for _, at := range u.found {
			t.Errorf("%s: no comment on %s", files.Position(at.Pos()), at.Name)
		}
	})
	if seen < 1000 {
		t.Fatalf("%d identifiers: is this not the repository?", seen)
	}
}

// published reports whether others import the packages of a directory, those
// without an Example included.
func published(dir string) bool {
	return !untagged(dir) && !isInternal(dir) && !within(dir, "cmd")
}

// undocumented collects the exported names of a file, and of these the ones
// without a comment.
type undocumented struct {
	files *token.FileSet
	seen  int
	found []*ast.Ident
}

func (u *undocumented) name(name *ast.Ident, comments ...*ast.CommentGroup) {
	if !name.IsExported() {
		return
	}
	u.seen++
	for _, c := range comments {
		if c != nil {
			return
		}
	}
	u.found = append(u.found, name)
}

func (u *undocumented) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || exportedType(d.Recv.List[0].Type) {
			u.name(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					u.name(n, d.Doc, s.Doc, s.Comment)
				}
			case *ast.TypeSpec:
				u.name(s.Name, d.Doc, s.Doc, s.Comment)
				if s.Name.IsExported() {
					u.members(s.Type)
				}
			}
		}
	}
}

// members are the fields of a struct and the methods of an interface.
func (u *undocumented) members(of ast.Expr) {
	var list *ast.FieldList
	switch x := of.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return
	}
	var above *ast.CommentGroup // of the run
	end := 0
	for _, f := range list.List {
		begin := u.files.Position(f.Pos()).Line
		if f.Doc != nil || begin != end+1 {
			above = f.Doc
		}
		end = u.files.Position(f.End()).Line
		for _, n := range f.Names {
			u.name(n, above, f.Comment)
			u.members(f.Type)
		}
	}
}

func exportedType(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.StarExpr:
		return exportedType(x.X)
	case *ast.IndexExpr:
		return exportedType(x.X)
	case *ast.IndexListExpr:
		return exportedType(x.X)
	case *ast.Ident:
		return x.IsExported()
	}
	return false
}
