package natslab

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Program replaces the test in programs that are not tests: benchmarks and
// labs with their own main. It has the methods of testing.TB that this package
// needs; its other methods must not be called. A failure is a panic, see
// [Program.Run].
type Program struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
}

// Run calls f, and returns as an error what this package found to fail in it,
// on the same goroutine.
func (p *Program) Run(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			failed, ok := fault.(failure)
			if !ok {
				panic(fault)
			}
			err = failed
		}
	}()
	return f()
}

// A failure is what Fatal panics with.
type failure string

func (f failure) Error() string { return string(f) }

// Helper does nothing: there are no lines of a test to blame.
func (p *Program) Helper() {}

// Fatal ends what Run called.
func (p *Program) Fatal(args ...any) { panic(failure(fmt.Sprint(args...))) }

// Fatalf ends what Run called.
func (p *Program) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// Cleanup registers f for Close.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// TempDir makes a directory that Close removes.
func (p *Program) TempDir() string {
	dir, err := os.MkdirTemp("", "leader-lab-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { remove(dir) })
	return dir
}

// remove removes a directory of a server that was stopped. The server may still
// write a stream's state after it reports its shutdown (nats-server 2.15.2),
// and a directory that gets a file meanwhile cannot be removed.
func remove(dir string) {
	for range 50 {
		if os.RemoveAll(dir) == nil {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// Close ends what was started, the latest first.
func (p *Program) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	p.cleanups = nil
}
