package arena

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestADiskCanBeSlowAndFull(t *testing.T) {
	dir := t.TempDir()
	d, err := newDisk(filepath.Join(dir, "backing"), filepath.Join(dir, "mount"))
	if err != nil {
		t.Skipf("no right to mount: %v", err)
	}
	defer d.close()
	file := filepath.Join(dir, "mount", "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	const delay = 50 * time.Millisecond
	d.Slow(delay)
	begun := time.Now()
	if err := os.WriteFile(file, []byte("again"), 0o600); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < delay {
		t.Errorf("a write to the slow disk took %v", took)
	}
	d.Slow(0)
	if err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mount", "more"), make([]byte, 1<<20), 0o600); err == nil {
		t.Error("the full disk takes more")
	}
	if err := d.Empty(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("the disk has room again: %v", err)
	}
}
