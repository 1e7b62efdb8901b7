package finding

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

func TestJoinedErrorsAreOneLine(t *testing.T) {
	var l List
	l.Add("store", Fail, "", "not examined: %v", errors.Join(errors.New("a is down"), errors.New("b is down")))
	var b strings.Builder
	if err := l.Write(&b, output.Format{Output: "table"}, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "fail  store  not examined: a is down; b is down\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
