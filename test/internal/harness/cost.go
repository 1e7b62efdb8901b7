package harness

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// A Meter counts the bytes of connections.
type Meter struct{ Up, Down atomic.Int64 }

// Dial makes a connection whose bytes are counted. It implements
// nats.CustomDialer.
func (m *Meter) Dial(network, address string) (net.Conn, error) {
	return m.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context.
func (m *Meter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return metered{c, m}, nil
}

type metered struct {
	net.Conn
	m *Meter
}

func (c metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.m.Down.Add(int64(n))
	return n, err
}

func (c metered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.m.Up.Add(int64(n))
	return n, err
}

// A Footprint is what this process takes.
type Footprint struct {
	Heap       int64 // live, in bytes
	Goroutines int
}

// Measure returns the footprint after the garbage is gone.
func Measure() Footprint {
	runtime.GC()
	runtime.GC() // what pools and finalizers released
	return Footprint{int64(Memory().HeapAlloc), runtime.NumGoroutine()}
}

// Each returns what has been added since, for each of n.
func (f Footprint) Each(since Footprint, n int) (heap, goroutines float64) {
	return float64(f.Heap-since.Heap) / float64(n), float64(f.Goroutines-since.Goroutines) / float64(n)
}

// Memory returns the runtime's counters.
func Memory() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}

// Asking measures a question whose answer has to be yes.
func Asking(yes func() bool) testing.BenchmarkResult {
	testing.Init()
	return testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if !yes() {
				b.Fatal("the answer is no")
			}
		}
	})
}

// Nanoseconds is how long one operation took.
func Nanoseconds(r testing.BenchmarkResult) float64 {
	return float64(r.T.Nanoseconds()) / float64(r.N)
}
