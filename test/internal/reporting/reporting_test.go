package reporting_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

func TestLinesAreFullAndNotOverfull(t *testing.T) {
	sixty, more := strings.Repeat("é", 60), strings.Repeat("x", 121)
	short := sixty[:2*59]
	for text, want := range map[string]string{
		"":                                "",
		"a\n b\t c":                       "a b c",
		sixty + " " + short:               sixty + " " + short,
		sixty + " " + sixty:               sixty + "\n" + sixty,
		sixty + " " + short + " a":        sixty + " " + short + "\na",
		sixty + " " + sixty + " " + short: sixty + "\n" + sixty + " " + short,
		sixty + " " + sixty + " " + sixty: sixty + "\n" + sixty + "\n" + sixty,
		"a " + more + " b":                "a\n" + more + "\nb",
	} {
		if got := reporting.Fill(text); got != want {
			t.Errorf("%q is filled to\n%s\nwant\n%s", text, got, want)
		}
	}
}
