package mutant

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A mutant whose text is gone from the library would be the library itself.
// This test reports it at each change of the library. To show that the lab
// condemns each mutant takes a minute each, and a command: see
// docs/evidence/chaos.md.
func TestTheTextOfEachMutantIsInTheLibraryOnce(t *testing.T) {
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			replace, err := m.write(filepath.Join("..", "..", "..", "..", ".."), t.TempDir())
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
