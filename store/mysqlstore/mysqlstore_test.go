package mysqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
)

func TestInvalidTableNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", "a`b", "a'b", "a--b", "a\nb", "a\n", "a\x00", "é",
		strings.Repeat("a", 57), "a." + strings.Repeat("a", 57), strings.Repeat("a", 65) + ".a",
	} {
		if _, err := mysqlstore.Schema(name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "leader_records", "A", "_a1", "app.Records", "order", strings.Repeat("a", 56)} {
		texts, err := mysqlstore.Schema(name)
		if err != nil || strings.Contains(strings.Join(texts, " "), "_NAME") {
			t.Errorf("%q: %v", name, err)
		}
	}
	texts, err := mysqlstore.Schema("app.order")
	all := strings.Join(texts, " ")
	if err != nil || !strings.Contains(all, "`app`.`order`") || !strings.Contains(all, "`app`.`order_floor`") || !strings.Contains(all, "`app`.`order_update`") {
		t.Errorf("%v: %s", err, all)
	}
}

func TestAURLThatIsNoneIsExplainedWithoutItsPassword(t *testing.T) {
	for url, word := range map[string]string{
		"mysql://u:secret@h/d?table=a.b.c":    "table",
		"mysql://u:secret@h/d?create=perhaps": "create",
		"mysql://u:secret@h/d?timeout=soon":   "query",
		"mysql://u:secret@h/d?strict=true":    "strict",
		"mysql://u:secret@h/d?table=%zz":      "query",
		"mysql://u:secret@h":                  "database",
		"mysql://u:secret@h/a/b":              "database",
		"postgres://u:secret@h/d":             "mysql://",
	} {
		_, err := mysqlstore.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestEveryInvalidOptionIsReported(t *testing.T) {
	_, err := mysqlstore.New(nil, mysqlstore.Options{Table: "1", Timeout: -1, Every: -1})
	for _, word := range []string{"db", "table", "Timeout", "Every"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not told: %v", word, err)
		}
	}
}
