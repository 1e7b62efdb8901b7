package storefigures_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

var update = flag.Bool("update", false, "write the tables of the kinds in docs/reference/stores.md again")

// root is the root of the repository.
const root = "../../.."

func TestThePageShowsTheKindsAsTheyAre(t *testing.T) {
	t.Parallel()
	_ = os.Getenv("LEADER_TREE") // page and stores are outside of what Go's test cache sees (see the Makefile)
	file, want := filepath.Join(root, "docs", "reference", "stores.md"), storefigures.KindsMarkdown(storefigures.Kinds())
	if *update {
		if err := storefigures.Described.Fill(file, want); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := storefigures.Described.Of(string(page))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		switch {
		case i >= len(gotLines):
			t.Fatalf("%s lacks the line %q: run go generate in test/internal/storefigures", file, wantLines[i])
		case i >= len(wantLines) || gotLines[i] != wantLines[i]:
			t.Fatalf("%s has the line %q, which kinds.go has not there: change that, and run go generate in test/internal/storefigures", file, gotLines[i])
		}
	}
}

// The page describes the messages of Check as they are: each clause is in the
// store's code.
func TestEachClaimOfThePageIsInTheCodeOfItsStore(t *testing.T) {
	t.Parallel()
	for _, k := range slices.Concat(storefigures.Kinds()...) {
		source := strings.Join(sources(t, k.Package), "")
		for _, claim := range claims(k) {
			if len(claim.Code) == 0 {
				t.Errorf("%s: nothing shows where the code has %q", k.Name, claim.Text)
			}
			for _, part := range claim.Code {
				if !strings.Contains(source, part) {
					t.Errorf("%s: %q should occur in the code as %q, but does not", k.Name, claim.Text, part)
				}
			}
		}
	}
}

// And the other way round: whatever Check warns of, and finds fault with, has a
// clause on the page.
func TestPageHasEveryWarning(t *testing.T) {
	t.Parallel()
	for _, k := range slices.Concat(storefigures.Kinds()...) {
		said := 0
		for _, source := range sources(t, k.Package) {
			if !strings.Contains(source, ") Check(") {
				continue // it finds fault with options
			}
			for _, text := range judgements(t, source) {
				said++
				if !slices.ContainsFunc(claims(k), func(c storefigures.Claim) bool {
					return slices.ContainsFunc(c.Code, func(part string) bool { return strings.Contains(text, part) })
				}) {
					t.Errorf("%s: no claim of kinds.go has the text of its code: %q", k.Name, text)
				}
			}
		}
		if said == 0 {
			t.Errorf("%s: its code warns of nothing: does this test still know how it does?", k.Name)
		}
	}
}

func claims(k storefigures.Kind) []storefigures.Claim {
	return slices.Concat(k.Refused, k.CoolDown, k.Warned)
}

// sources are the files of a store, and of what it is built on.
func sources(t *testing.T, pkg string) (all []string) {
	t.Helper()
	for _, dir := range []string{pkg, "store/objects"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		if !strings.Contains(strings.Join(all, ""), `"github.com/seed-ff2cb582/leader/store/objects"`) {
			break
		}
	}
	return all
}

// judgements are the texts that a file's calls of warn and fault have, and
// those that are appended to Warnings.
func judgements(t *testing.T, source string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(of ...ast.Expr) {
		text, formats := "", false
		for _, expr := range of {
			ast.Inspect(expr, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					part, err := strconv.Unquote(n.Value)
					if n.Kind == token.STRING && err == nil {
						text += part
					}
				case *ast.Ident:
					formats = formats || n.Name == "format"
				}
				return true
			})
		}
		// That of warn and fault themselves is only what they add.
		if text != "" && !formats {
			all = append(all, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called, _ := n.Fun.(*ast.Ident)
			switch {
			case called == nil:
			case called.Name == "warn" || called.Name == "fault":
				add(n.Args[1:]...) // the first is the condition
			case called.Name == "append":
				if to, is := n.Args[0].(*ast.SelectorExpr); is && to.Sel.Name == "Warnings" {
					add(n.Args[1:]...)
				}
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && key.Name == "Warnings" {
				add(n.Value)
			}
		}
		return true
	})
	return all
}

func TestABlockIsReplacedAndNothingElse(t *testing.T) {
	t.Parallel()
	const before = "a\n<!-- written by make stores: the kinds -->\nb\n<!-- written by make stores: the kinds: end -->\nc\n" +
		"<!-- written by make stores -->\nd\n<!-- written by make stores: end -->\ne\n"
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for block, text := range map[storefigures.Block]string{storefigures.Described: "B $1\n", storefigures.Measured: "D\n"} {
		if err := block.Fill(file, text); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.NewReplacer("b\n", "B $1\n", "d\n", "D\n").Replace(before)
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := storefigures.Block("nothing").Fill(file, ""); err == nil {
		t.Error("a block that is not there was filled")
	}
}

func TestARowOfNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	kinds := []storefigures.Kind{{Name: "a"}, {Name: "b", Warned: []storefigures.Claim{{Text: "one"}, {Text: "two"}}}}
	text := storefigures.KindsMarkdown([][]storefigures.Kind{kinds})
	if !strings.Contains(text, "| warned of | – | one; two |\n") || strings.Contains(text, "refused") {
		t.Errorf("%s", text)
	}
}
