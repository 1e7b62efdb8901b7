package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A bench is what package natslab needs of a test.
type bench struct {
	testing.TB
	dir string
	// furnish, optional, is called with each directory that was made.
	furnish func(dir string)
	log     io.Writer

	mu       sync.Mutex
	dirs     int
	cleanups []func()
}

// A trouble is why a round cannot go on: the lab's fault and nobody else's. It is panicked with, and caught by guard.
type trouble struct{ error }

// guard turns a trouble into an error.
func guard(err *error) {
	if fault := recover(); fault != nil {
		t, ok := fault.(trouble)
		if !ok {
			panic(fault)
		}
		*err = t.error
	}
}

func (b *bench) Helper() {}

func (b *bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *bench) Fatal(args ...any) { panic(trouble{fmt.Errorf("%s", fmt.Sprint(args...))}) }

func (b *bench) Fatalf(format string, args ...any) { panic(trouble{fmt.Errorf(format, args...)}) }

// check ends the round with a trouble.
func (b *bench) check(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

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

// cleanup undoes everything, the latest first.
func (b *bench) cleanup() {
	for {
		b.mu.Lock()
		n := len(b.cleanups)
		if n == 0 {
			b.mu.Unlock()
			return
		}
		last := b.cleanups[n-1]
		b.cleanups = b.cleanups[:n-1]
		b.mu.Unlock()
		last()
	}
}
