package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"strings"
)

// The conditions of case clauses are not statements, so gremlins, which goes by
// coverage, takes them for untested and leaves them out. They are mutated here,
// by the operators that gremlins has.

// others are the operators that take an operator's place.
var others = map[token.Token][]token.Token{
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
}

// A caseMutant is a condition with one operator replaced.
type caseMutant struct {
	name string // the file, the condition and the replacement: it stays when lines move
	edit edit
}

// caseMutants lists them for one file.
func caseMutants(root, file string) ([]caseMutant, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	text, err := read(root, file)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	var all []caseMutant
	condition := func(e ast.Expr) {
		shown := strings.Join(strings.Fields(text[at(e.Pos()):at(e.End())]), " ")
		ast.Inspect(e, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok {
				return true
			}
			for _, op := range others[b.Op] {
				begin := at(b.OpPos)
				mutated := text[:begin] + op.String() + text[begin+len(b.Op.String()):]
				all = append(all, caseMutant{
					// The number distinguishes equal operators of one
					// condition.
					name: fmt.Sprintf("%s: %s: %v at %d becomes %v", filepath.Base(file), shown, b.Op, begin-at(e.Pos()), op),
					edit: edit{file: file, old: text, new: mutated},
				})
			}
			return true
		})
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		s, ok := n.(*ast.SwitchStmt)
		if !ok || s.Tag != nil {
			return true
		}
		for _, clause := range s.Body.List {
			if c, ok := clause.(*ast.CaseClause); ok {
				for _, e := range c.List {
					condition(e)
				}
			}
		}
		return true
	})
	return all, nil
}

// coreFiles are the files of the core.
func coreFiles(root string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(root, machine, "*.go"))
	var files []string
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, machine+filepath.Base(name))
		}
	}
	return files, err
}

// huntCases mutates the conditions of the core's case clauses, and reports the
// mutants that survive and are not listed as harmless.
func huntCases(ctx context.Context, l lab, progress io.Writer) (alive []string, err error) {
	files, err := coreFiles(l.root)
	if err != nil {
		return nil, err
	}
	c := check{pkg: strings.TrimSuffix(machine, "/"), run: ".", args: "-test.short"}
	count := 0
	for _, file := range files {
		all, err := caseMutants(l.root, file)
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			if harmless[m.name] != "" {
				continue
			}
			binary, err := l.build(ctx, c.pkg, []edit{m.edit})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			v, err := l.run(ctx, binary, c)
			if err != nil {
				return nil, err
			}
			count++
			if v.passed {
				v.by = "ALIVE"
				alive = append(alive, m.name)
			}
			fmt.Fprintf(progress, "%s: %s, %.1f s\n", m.name, v.by, v.took.Seconds())
		}
	}
	fmt.Fprintf(progress, "%d conditions mutated, %d harmless, %d alive\n", count, len(harmless), len(alive))
	return alive, nil
}

// harmless are the mutants of conditions that change nothing that anybody could
// observe, with the reason.
var harmless = map[string]string{
	"write.go: c.ev.Outcome == OK && c.ev.Rev > c.s.View.Rev: > at 31 becomes >=": "an acknowledgement has the revision of what was seen" +
		" only if our own renewal was seen; then it is no longer awaited",
}
