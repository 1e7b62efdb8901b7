//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tempdir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tempdir"
)

func TestDirectoriesOfDeadProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	open := func(prefix string) *tempdir.Dir {
		t.Helper()
		d, err := tempdir.New(prefix)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	lives, another, dead := open("a-"), open("b-"), open("a-")
	_, _ = dead.Lock.Close(), another.Lock.Close() // as the system does when their processes end
	unlocked, err := os.MkdirTemp("", "a-")        //nolint:usetesting // its name matters: it is somebody else's, or of a process that is at this point
	if err != nil {
		t.Fatal(err)
	}
	last := open("a-")
	want := []string{lives.Path, another.Path, unlocked, last.Path}
	slices.Sort(want)
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || !slices.Equal(left, want) {
		t.Errorf("%v: left %q, want %q", err, left, want)
	}
	for _, d := range []*tempdir.Dir{lives, last} {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
}
