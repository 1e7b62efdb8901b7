//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What the library has to say stands among the command's own words, as one of
// them.
func TestRunSpeaksWithOneVoice(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if _, err := l.js.CreateKeyValue(l.within(), jetstream.KeyValueConfig{Bucket: "plain", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", " -v"} {
		code, _, stderr := execute(t, []string{"NATS_URL=" + l.url}, strings.Fields("run g -b plain --ttl 300ms --heartbeat 60ms"+flags+" -- true")...)
		if code != 0 || !strings.Contains(stderr, `warning: Bucket "plain" expires records`) || strings.Contains(stderr, "promoted") != (flags != "") {
			t.Errorf("exit status %d: %s", code, stderr)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "leader: ") || strings.Contains(line, "level=") {
				t.Errorf("%q", line)
			}
		}
	}
}
