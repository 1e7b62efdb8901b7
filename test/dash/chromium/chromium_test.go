package chromium

import (
	"context"
	"strings"
	"testing"
)

// Whoever starts the tests learns what is about to be put where before it is:
// here it is not, since the context is over.
func TestWhatIsInstalledIsSaidBefore(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	if err := Install(ctx, &said); err == nil {
		t.Fatal("installed by a context that is over")
	}
	first, _, _ := strings.Cut(said.String(), "\n")
	if !strings.Contains(first, "about to be downloaded") || !strings.Contains(first, cache) {
		t.Errorf("first said: %q", first)
	}
}
