package arena

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Bench is what package natslab needs of a test, with all directories in one.
type Bench struct {
	natslab.Program
	dir string
	// furnish, optional, is called with each directory that natslab asks for.
	furnish func(dir string)

	mu   sync.Mutex
	dirs int
}

// NewBench returns one whose directories are made in dir.
func NewBench(dir string) *Bench { return &Bench{dir: dir} }

// Check ends what Run called with an error.
func (b *Bench) Check(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// TempDir makes a directory.
func (b *Bench) TempDir() string {
	b.mu.Lock()
	b.dirs++
	dir := filepath.Join(b.dir, strconv.Itoa(b.dirs))
	b.mu.Unlock()
	b.Check(os.MkdirAll(dir, 0o700))
	if b.furnish != nil {
		b.furnish(dir)
	}
	return dir
}
