package proxy_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/proxy"
)

// The three ways to a server: direct, through a copy by reads and writes, as
// socat makes it, and through the proxy.
const (
	direct = iota
	copied
	proxied
	ways
)

// lay returns a connection to a server by each way.
func lay(b *testing.B, serve func(net.Conn)) (conns [ways]net.Conn) {
	b.Helper()
	server := accept(b, serve)
	plain := accept(b, func(c net.Conn) {
		to, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", server)
		if err != nil {
			return
		}
		defer to.Close() //nolint:errcheck // a fixture
		go copyPlainly(to, c)
		copyPlainly(c, to)
	})
	for way, address := range map[int]string{direct: server, copied: plain, proxied: throughProxy(b, server)} {
		c, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		conns[way] = c
	}
	return conns
}

// accept serves connections, until the benchmark ends.
func accept(b *testing.B, serve func(net.Conn)) (address string) {
	b.Helper()
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // a fixture
				serve(c)
			}()
		}
	}()
	b.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// copyPlainly hides the types by which io.Copy would have the kernel copy.
func copyPlainly(dst io.Writer, src io.Reader) {
	buf := make([]byte, 64<<10)
	_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf)
}

func throughProxy(b *testing.B, server string) (address string) {
	b.Helper()
	g := leadertest.NewGroup(b, leader.ElectionConfig{Group: "g", TTL: time.Minute, AcquireGrace: leader.GraceOff})
	p, err := proxy.NewWithStore(g.Store("proxy"), "g", proxy.Options{Drain: -1})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.Serve(ctx, ln) })
	b.Cleanup(func() { stop(); serving.Wait() })
	cfg := g.Config("a")
	cfg.Address = server
	e, err := leader.NewElectionWithStore(g.Store("a"), cfg)
	if err == nil {
		err = e.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Stop() })
	return ln.Addr().String()
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkLatency sends a byte there and back, by each way in turn, so that
// what else the machine does touches all alike.
func BenchmarkLatency(b *testing.B) {
	conns := lay(b, func(c net.Conn) { copyPlainly(c, c) })
	var took [ways][]float64
	byteOf := make([]byte, 1)
	for _, c := range conns { // the first waits for the leader
		_, _ = c.Write(byteOf)
		_, _ = io.ReadFull(c, byteOf)
	}
	for b.Loop() {
		for way, c := range conns {
			began := time.Now()
			_, err := c.Write(byteOf)
			if err == nil {
				_, err = io.ReadFull(c, byteOf)
			}
			if err != nil {
				b.Fatal(err)
			}
			took[way] = append(took[way], float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	alone := median(took[direct])
	b.ReportMetric(alone, "direct-p50-µs")
	b.ReportMetric(median(took[copied])-alone, "copy-adds-p50-µs")
	b.ReportMetric(median(took[proxied])-alone, "proxy-adds-p50-µs")
}

// BenchmarkThroughput sends 32 MiB by each way in turn, and waits for the
// answer that all has arrived.
func BenchmarkThroughput(b *testing.B) {
	const size = 32 << 20
	conns := lay(b, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		for {
			for left := size; left > 0; {
				n, err := c.Read(buf[:min(left, len(buf))])
				if err != nil {
					return
				}
				left -= n
			}
			if _, err := c.Write(buf[:1]); err != nil {
				return
			}
		}
	})
	var rate [ways][]float64
	data := make([]byte, 256<<10)
	for b.Loop() {
		for way, c := range conns {
			began := time.Now()
			for range size / len(data) {
				if _, err := c.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			rate[way] = append(rate[way], size/1e6/time.Since(began).Seconds())
		}
	}
	alone := median(rate[direct])
	b.ReportMetric(alone, "direct-MB/s")
	b.ReportMetric(100*median(rate[copied])/alone, "copy-%-of-direct")
	b.ReportMetric(100*median(rate[proxied])/alone, "proxy-%-of-direct")
}
