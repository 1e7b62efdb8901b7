package boundaries

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A test is run once more where the race detector failed, and not where the
// test did: that would hide one test in how many runs fails.
func TestATestIsRunAgainWhereTheRaceDetectorFailed(t *testing.T) {
	const crash = `echo 'ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 "…" (tid=1)' >&2`
	for name, c := range map[string]struct {
		program    string // the program, and its run
		runs, code int
	}{
		"that passes":               {"exit 0", 1, 0},
		"that fails":                {"echo '--- FAIL: Test'; exit 1", 1, 1},
		"with a race":               {"echo 'WARNING: DATA RACE' >&2; exit 66", 1, 66},
		"that speaks of it":         {crash + "; exit 0", 1, 0},
		"that the detector ends":    {"[ $1 != 1 ] || { " + crash + "; exit 66; }", 2, 0},
		"that then fails":           {"[ $1 != 1 ] && exit 1; " + crash + "; exit 66", 2, 1},
		"that the detector ends ":   {crash + "; exit 66", 2, 66},
		"for programs without cgo ": {"[ $CGO_ENABLED = 0 ]", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			counted := filepath.Join(t.TempDir(), "runs")
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "raced.sh"),
				"sh", "-c", `echo >>"$0"; set -- $(wc -l <"$0"); `+c.program, counted)
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			runs, err := os.ReadFile(counted)
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) != c.runs || cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("%d runs and exit code %d, want %d and %d: %s", len(runs), cmd.ProcessState.ExitCode(), c.runs, c.code, out)
			}
		})
	}
}
