package sqlfence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/sqlfence"
)

func TestInvalidTableNamesAreRefused(t *testing.T) {
	for _, d := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		for _, name := range []string{
			"", ".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", `a"b`, "a`b", "a'b", "a--b", "a\nb", "a\n", "a\x00", "é",
			"fence; DROP TABLE fence", `fence" (x); --`, strings.Repeat("a", 64), "a." + strings.Repeat("a", 64),
		} {
			if _, err := sqlfence.New(d, name); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("%v, %q: %v", d, name, err)
			}
		}
		for _, name := range []string{"leader_fence", "A", "_a1", "app.Fence", "order", strings.Repeat("a", 63)} {
			if _, err := sqlfence.New(d, name); err != nil {
				t.Errorf("%v, %q: %v", d, name, err)
			}
		}
	}
	for _, d := range []sqlfence.Dialect{0, sqlfence.SQLite + 1} {
		if _, err := sqlfence.New(d, "leader_fence"); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestTableIsQuotedInEachStatement(t *testing.T) {
	for d, want := range map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: `"app"."order"`, sqlfence.MySQL: "`app`.`order`", sqlfence.SQLite: `"app"."order"`,
	} {
		f, err := sqlfence.New(d, "app.order")
		if err != nil {
			t.Fatal(err)
		}
		s := f.Statements()
		for _, statement := range []string{s.Schema, s.Admit, s.Mark, s.Share, s.Last, f.Schema()} {
			if strings.Count(statement, want) != 1 || strings.Contains(statement, "TABLE_NAME") {
				t.Errorf("%v: %s", d, statement)
			}
		}
	}
}
