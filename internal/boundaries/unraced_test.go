package boundaries

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestWhatTheRaceDetectorSkipsRunsWithoutIt: a test that calls elsewhere skips
// itself under the race detector, and its package is tested with it. So it is
// run by no command, unless make rest names it.
func TestWhatTheRaceDetectorSkipsRunsWithoutIt(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	rest := regexp.MustCompile(`-run '(\^\([^']*\))\$\$' \. \./test/natsstore\n`).FindSubmatch(makefile)
	if rest == nil {
		t.Fatal("the Makefile names no tests of ./test/natsstore")
	}
	named := regexp.MustCompile(string(rest[1]) + "$")
	files, err := filepath.Glob(filepath.Join(root, "test", "natsstore", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	skipping := regexp.MustCompile(`(?m)^func (Test\w*)\(t \*testing\.T\) \{\n(?:\t.*\n|\n)*?\telsewhere\(t\)\n`)
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range skipping.FindAllSubmatch(text, -1) {
			seen++
			if name := string(found[1]); !named.MatchString(name) {
				t.Errorf("%s skips itself under the race detector, and make rest does not name it", name)
			}
		}
	}
	if seen < 3 {
		t.Fatalf("%d tests call elsewhere: are these not the files?", seen)
	}
}
