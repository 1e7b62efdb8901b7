package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
)

func TestInvalidTableNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", `a"b`, "a'b", "a--b", "a\nb", "a\n", "a\x00", "é", "$x$",
		`x" (y); --`, strings.Repeat("a", 55), "a." + strings.Repeat("a", 55), strings.Repeat("a", 64) + ".a",
	} {
		if _, err := pgstore.Schema(name); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "leader_records", "A", "_a1", "app.Records", "order", strings.Repeat("a", 54)} {
		text, err := pgstore.Schema(name)
		if err != nil || strings.Contains(text, "_NAME") {
			t.Errorf("%q: %v", name, err)
		}
	}
	text, err := pgstore.Schema("order")
	if err != nil || !strings.Contains(text, `"public"."order"`) || !strings.Contains(text, `"public"."order_revision"`) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestAURLThatIsNoneIsExplainedWithoutItsPassword(t *testing.T) {
	for url, word := range map[string]string{
		"postgres://u:secret@h/d?table=a.b.c":    "table",
		"postgres://u:secret@h/d?create=perhaps": "create",
		"postgres://u:secret@h:port/d":           "port",
		"postgres://u:secret@h/d?sslmode=odd":    "sslmode",
		"postgres://u:secret@h/d?table=%zz":      "query",
		// The password may be among the settings, too.
		"postgres://u@h/d?password=secret&sslmode=odd":    "sslmode",
		"postgres://u@h/d?sslpassword=secret&sslmode=odd": "sslmode",
		"mysql://u:secret@h/d":                            "postgres://",
	} {
		_, err := pgstore.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestEveryInvalidOptionIsReported(t *testing.T) {
	_, err := pgstore.New(nil, pgstore.Options{Table: "1", Timeout: -1, Every: -1})
	for _, word := range []string{"pool", "table", "Timeout", "Every"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not told: %v", word, err)
		}
	}
}
