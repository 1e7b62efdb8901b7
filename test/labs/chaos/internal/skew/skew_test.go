package skew

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/overlay"
)

// A row is what the program in internal/clocks prints.
type row struct {
	What                             string
	Monotonic, Wall, Boot, Day, True int64
}

// program is the one whose clocks are measured.
const program = "github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew/internal/clocks"

// clocks builds it.
func clocks(t *testing.T) string {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	replace, err := Overlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := overlay.Build(t.Context(), dir, program, replace)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func measure(t *testing.T, binary string, rate int) (rows []row) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", Variable, rate))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(out); lines.More(); {
		var r row
		if err := lines.Decode(&r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// A busy machine makes each duration longer on all clocks alike, and stops the
// program between two readings; hence ratios, and some room.
func TestAProgramsClocksRunAtItsRate(t *testing.T) {
	binary := clocks(t)
	const second = 1e9
	for _, rate := range []int{900, True, 1100} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			rows := measure(t, binary, rate)
			if len(rows) != 7 {
				t.Fatalf("%d rows: %+v", len(rows), rows)
			}
			want := float64(rate) / True
			for _, r := range rows {
				for clock, own := range map[string]int64{"monotonic": r.Monotonic, "wall": r.Wall, "boot": r.Boot, "day": r.Day} {
					if got := float64(own) / float64(r.True); math.Abs(got-want) > 0.03 {
						t.Errorf("%s: clock %q ran at %.3f of the machine's, not %.3f: %+v", r.What, clock, got, want, r)
					}
				}
				if r.What == "true sleep" {
					continue
				}
				if r.Monotonic < second {
					t.Errorf("%s of a second ended after %d ns of the process: too early", r.What, r.Monotonic)
				}
			}
			if !t.Failed() {
				prompt(t, binary, rate, rows)
			}
		})
	}
}

// prompt fails the test unless some try at each duration took a second of the
// process and hardly more: a kernel that counted true time would make it 1.1 s
// at rate 1100, however often it is tried.
func prompt(t *testing.T, binary string, rate int, rows []row) {
	t.Helper()
	const second, late, tries = 1e9, 5e7, 5
	best := map[string]int64{}
	for range tries {
		missing := ""
		for _, r := range rows {
			if b, ok := best[r.What]; !ok || r.Monotonic < b {
				best[r.What] = r.Monotonic
			}
			if r.What != "true sleep" && best[r.What] > second+late {
				missing = r.What
			}
		}
		if missing == "" {
			return
		}
		rows = measure(t, binary, rate)
	}
	t.Errorf("a second of the process took, at best, %v ns of it", best)
}

// The machine that runs the tests has one kind of processor. Any machine can
// show that the text to be changed exists for the others, and compiles.
func TestProgramsAreBuiltForEachProcessor(t *testing.T) {
	t.Setenv("GOOS", "linux")
	t.Setenv("CGO_ENABLED", "0")
	for arch := range now() {
		t.Setenv("GOARCH", arch)
		dir := t.TempDir()
		replace, err := overlayFor(t.Context(), dir, arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := overlay.Build(t.Context(), dir, program, replace); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

func TestTheRuntimeIsChangedInACopy(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	replace, err := Overlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for original, changed := range replace {
		if in, err := filepath.Rel(dir, changed); err != nil || !filepath.IsLocal(in) {
			t.Errorf("%s is replaced by %s, outside %s", original, changed, dir)
		}
	}
}
