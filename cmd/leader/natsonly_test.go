//go:build natsonly

package main

import (
	"strings"
	"testing"
)

// tags are those of the program that the tests run: it is built as they are.
const tags = "natsonly"

func TestAProgramForNATSAloneSaysSo(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	judge(t, l, []mistake{
		{"ls --store redis://127.0.0.1", 2, []string{`the scheme "redis"; known here are nats://`}},
		{"announce g --to etcd://127.0.0.1", 2, []string{"--to: this program was built with the tag natsonly"}},
	})
	if out, _ := l.run(0, "--version"); !strings.Contains(out, ", tags natsonly)") {
		t.Errorf("%q", out)
	}
}
