package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/inspect"
)

func TestDrainsAreNamedInOneLineOfLimitedLength(t *testing.T) {
	var d Drains
	if d.Line() != "" || d.Words("a") != "drained" {
		t.Errorf("%q, %q", d.Line(), d.Words("a"))
	}
	take := func(id string, drained bool) {
		d.Take(inspect.DrainKey(id), inspect.Drain{Instance: id, By: "ann", Reason: "a \"new\" kernel"}, drained)
	}
	take("b", true)
	take("a b", true)
	if got, want := d.Line(), `instance "a b" is drained, by "ann" ("a \"new\" kernel"); instance "b" is drained, by "ann" ("a \"new\" kernel")`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := d.Words("a b"); !strings.HasPrefix(got, `drained, by "ann"`) {
		t.Error(got)
	}
	for i := range 2 * maxDrains {
		take(fmt.Sprint("c", i), true)
	}
	if got := d.Line(); len(d.Lines()) != maxDrains || !strings.HasSuffix(got, fmt.Sprintf("; and %d more", maxDrains-ShownDrains)) {
		t.Errorf("%d lines: %s", len(d.Lines()), got)
	}
	take("b", false)
	take("a b", false)
	if got := d.Words("a b"); got != "drained" || len(d.Lines()) != maxDrains-2 {
		t.Errorf("%d lines, %q", len(d.Lines()), got)
	}
}
