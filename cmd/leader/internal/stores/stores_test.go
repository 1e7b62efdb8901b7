package stores

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// What help and errors show of the URLs leaves out what the commands refuse.
func TestAnUnknownSchemeIsToldWhatCommandsTake(t *testing.T) {
	_, err := store.Open(t.Context(), "foo://a/b", Drivers()...)
	if err == nil || !strings.Contains(err.Error(), "nats://HOST") || strings.Contains(err.Error(), "create=") || strings.Contains(Forms(), "create=") {
		t.Errorf("%v\n%s", err, Forms())
	}
}
