package stores

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// The URLs in help and errors leave out what the commands refuse: how to make a
// bucket of NATS. Other stores take create=true.
func TestUnknownSchemeErrorListsTheURLsOfCommands(t *testing.T) {
	_, err := store.Open(t.Context(), "foo://a/b", Drivers()...)
	if err == nil {
		t.Fatal("a store of an unknown scheme was opened")
	}
	for _, text := range []string{err.Error(), Forms()} {
		if !strings.Contains(text, "nats://HOST") || strings.Contains(text, "replicas=") {
			t.Errorf("%s\nshall show a bucket's URL, without replicas=", text)
		}
	}
}
