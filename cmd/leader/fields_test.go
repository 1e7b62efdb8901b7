package main

import (
	"cmp"
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// A fieldSource describes the fields of what a command prints as JSON, by the
// comments of their types.
type fieldSource struct {
	dir func(pkg string) string // where a package is, "" if it has no source

	comments map[string]string // by "pkg.Type.Field"
	loaded   map[string]bool
}

// A field has a path like candidates[].id and a type as JSON has it.
type field struct{ path, kind, help string }

// describe returns a list of the fields of a value's JSON.
func (s *fieldSource) describe(value any) (string, error) {
	var fields []field
	err := s.walk(reflect.TypeOf(value), "", &fields)
	var list strings.Builder
	for _, f := range fields {
		line := "- `" + f.path + "` " + f.kind
		if f.help != "" {
			line += ": " + strings.NewReplacer("<", `\<`, "*", `\*`).Replace(f.help)
		}
		list.WriteString(strings.ReplaceAll(ansi.Wordwrap(line, 118, " "), "\n", "\n  ") + "\n")
	}
	return list.String(), err
}

// walk adds the fields of a type, whose place is the path.
func (s *fieldSource) walk(t reflect.Type, path string, fields *[]field) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || leaf(t) {
		return nil
	}
	if err := s.load(t.PkgPath()); err != nil {
		return err
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if err := s.walk(f.Type, path, fields); err != nil {
				return err
			}
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		full := strings.TrimPrefix(path+"."+cmp.Or(name, f.Name), ".")
		*fields = append(*fields, field{full, jsonKind(f.Type), s.comments[key(t.PkgPath(), t.Name(), f.Name)]})
		if err := s.walk(f.Type, full, fields); err != nil {
			return err
		}
	}
	return nil
}

func key(pkg, typ, field string) string { return pkg + "." + typ + "." + field }

// leaf reports whether a type is printed as one value.
func leaf(t reflect.Type) bool {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	return t.Implements(text) || reflect.PointerTo(t).Implements(text)
}

func jsonKind(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return jsonKind(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[time.Duration]():
		return "number (nanoseconds)"
	case t == reflect.TypeFor[[]byte]():
		return "string (base64)"
	case leaf(t):
		return "string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "number"
	}
}

// load reads the comments of a package's types.
func (s *fieldSource) load(pkg string) error {
	if s.loaded == nil {
		s.loaded, s.comments = map[string]bool{}, map[string]string{}
	}
	dir := s.dir(pkg)
	if s.loaded[pkg] || dir == "" {
		return nil
	}
	s.loaded[pkg] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("comments of %s: %w", pkg, err)
		}
		s.collect(pkg, file)
	}
	return nil
}

func (s *fieldSource) collect(pkg string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				text := cmp.Or(f.Doc.Text(), f.Comment.Text())
				for _, name := range f.Names {
					s.comments[key(pkg, spec.Name.Name, name.Name)] = strings.Join(strings.Fields(text), " ")
				}
			}
		}
		return true
	})
}
