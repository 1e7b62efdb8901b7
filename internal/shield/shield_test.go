package shield_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/shield"
)

func TestCallReportsWhatDoesNotReturn(t *testing.T) {
	for name, c := range map[string]struct {
		f    func()
		want string // of the report; empty for none
	}{
		"return":    {func() {}, ""},
		"panic":     {func() { panic("boom") }, "it panicked: boom\n"},
		"nil":       {func() { panic(nothing) }, "it panicked: panic called with nil argument"},
		"exit":      {runtime.Goexit, "it panicked: runtime.Goexit was called\n"},
		"our stack": {func() { explode() }, "explode"},
	} {
		t.Run(name, func(t *testing.T) {
			var text string
			ok, done := false, make(chan struct{})
			go func() {
				defer close(done)
				ok = shield.Call(c.f, func(value any, stack []byte) { text = shield.Text("it", value, stack) })
			}()
			<-done
			if ok != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("ok %v, report %q, want %q", ok, text, c.want)
			}
		})
	}
}

// nothing is a value to panic with that a linter does not see to be nil.
var nothing any

func explode() { panic("boom") }
