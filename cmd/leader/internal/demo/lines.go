package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// plainLines prints events for people: the seconds since the start, and a
// sentence.
func plainLines(w io.Writer) func(Event) {
	return func(e Event) {
		text := strings.ReplaceAll(e.String(), "\n", "\n         ")
		fmt.Fprintf(w, "%7.3f  %s\n", e.T, text)
	}
}

// jsonLines prints events for programs: one object a line.
func jsonLines(w io.Writer) func(Event) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(e Event) { _ = enc.Encode(e) } // no reader is left: the output itself is gone
}
