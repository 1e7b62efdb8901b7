package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATextThatIsNotThereOnceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("twice twice"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"twice", "never"} {
		if _, err := Write(dir, t.TempDir(), []Change{{File: "x.go", Old: old}}); err == nil || !strings.Contains(err.Error(), "not once") {
			t.Errorf("%q: %v", old, err)
		}
	}
}
