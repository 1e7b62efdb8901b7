package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A bench is what package natslab needs of a test, with all directories in one.
type bench struct {
	natslab.Program
	dir string
	// furnish, optional, is called with each directory that natslab asks for.
	furnish func(dir string)

	mu   sync.Mutex
	dirs int
}

// check ends what Run called with an error.
func (b *bench) check(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// TempDir makes a directory.
func (b *bench) TempDir() string {
	b.mu.Lock()
	b.dirs++
	dir := filepath.Join(b.dir, strconv.Itoa(b.dirs))
	b.mu.Unlock()
	b.check(os.MkdirAll(dir, 0o700))
	if b.furnish != nil {
		b.furnish(dir)
	}
	return dir
}
