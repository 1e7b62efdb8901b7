package output

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// steering is a text that would steer a terminal: escape sequences in both their
// forms, line breaks, and characters that change the direction of writing.
const steering = "a\x1b[2J\u009b2J\x7f\r\nb\u202ec\u2066d\u2028e"

// A terminal shows the text of others without obeying it, and a program reads
// it unchanged.
func TestNoFormatLetsATextSteerTheTerminal(t *testing.T) {
	r := Result{
		Value: map[string]string{"who": steering, steering: "key"}, Names: []string{steering, "next"},
		Head: []string{"WHO"}, Rows: [][]string{{steering}},
	}
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		var b strings.Builder
		if err := (Format{Output: format}).WriteOn(Screen{}, &b, r); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if text := b.String(); strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && steers(c) }) || !strings.Contains(text, "a") {
			t.Errorf("%s: %+q", format, text)
		}
		var read map[string]string
		switch format {
		case "json":
			_ = json.Unmarshal([]byte(b.String()), &read)
		case "yaml":
			_ = yaml.Unmarshal([]byte(b.String()), &read)
		case "name":
			if n := strings.Count(b.String(), "\n"); n != 2 {
				t.Errorf("%d lines for two names", n)
			}
			continue
		default:
			continue
		}
		if read["who"] != steering || read[steering] != "key" {
			t.Errorf("%s: a program reads %+q", format, read)
		}
	}
}
