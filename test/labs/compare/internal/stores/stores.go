// Package stores has elections measured over each kind of store, by the test
// that make stores runs too.
package stores

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

// Measure measures the stores below the root of the repository whose servers
// the machine has, and reports the others as absent. kinds is a regular
// expression that selects stores by name; an empty one selects all.
//
// The test is in another module, whose clients of databases the comparison does
// not need. The first time it compiles them, which takes minutes.
func Measure(plan harness.Run, root, kinds string) (_ *storefigures.Report, err error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "stores.json")
	test := exec.CommandContext(plan.Ctx, "go", "test", "-count=1", "-vet=off", "-timeout=1h", "-run", "^TestFigures$/"+kinds, "./figures",
		"-args", "-rounds", strconv.Itoa(plan.N(20, 4)), "-json", file)
	test.Dir = filepath.Join(root, "test", "labs", "stores")
	test.Env = append(os.Environ(), "GOWORK=") // the workspace of the repository
	test.WaitDelay = harness.Patience
	out, failed := test.CombinedOutput()
	if failed != nil {
		// Print what was measured even so.
		_, werr := plan.Progress.Write(out)
		failed = errors.Join(fmt.Errorf("stores: %w", failed), werr)
	}
	r, err := storefigures.Read(file)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for i := range r.Stores {
		if s := &r.Stores[i]; s.Absent != "" {
			_, _ = fmt.Fprintf(plan.Progress, "stores: %s: %s\n", s.Name, s.Absent) // the report contains it, too
		}
	}
	return r, failed
}
