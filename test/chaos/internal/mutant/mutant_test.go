package mutant

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant whose text is gone from the library would be the library itself. This says so at each change of the library; that the
// lab condemns each mutant takes a minute each, and a command: see docs/chaos.md.
func TestTheTextOfEachMutantStandsInTheLibraryOnce(t *testing.T) {
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			replace, err := m.write(filepath.Join("..", "..", "..", ".."), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for original, mutated := range replace {
				a, err := os.ReadFile(original)
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(mutated)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(a, b) {
					t.Errorf("%s is unchanged", original)
				}
			}
		})
	}
}

func TestATextThatIsNotThereOnceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("twice twice"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"twice", "never"} {
		m := Mutant{Name: "m", changes: []change{{"x.go", old, ""}}}
		if _, err := m.write(dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not once") {
			t.Errorf("%q: %v", old, err)
		}
	}
}
