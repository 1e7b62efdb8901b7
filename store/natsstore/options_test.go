package natsstore

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// A prefix without its dot makes a watch that never receives anything.
func TestAPrefixThatNobodyPublishesOnIsRefused(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"": true, "leader.b.": true, "x.": true,
		"leader.b": false, "leader": false, ".": false, "leader..": false, "leader.*.": false, "leader.>": false, "lea der.b.": false,
	} {
		_, err := New(new(nats.Conn), "b", Options{Republished: prefix})
		if refused := err != nil && strings.Contains(err.Error(), "Republished"); refused == ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
