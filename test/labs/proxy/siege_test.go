//go:build unix

package proxy_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/proxy"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Flags of the test: go test ./test/labs/proxy -args -rounds 10 -seed 7.
var (
	rounds = flag.Int("rounds", 1, "how many times each fault strikes")
	seed   = flag.Uint64("seed", 0, "of the order of faults and of their lengths; 0 draws one")
)

// A client sends frames by one connection after the other.
type client struct {
	proxy    string
	frames   int          // in a connection; 0 for as many as it carries
	answered atomic.Int64 // when the latest frame that was answered had been sent
}

// pace is the time from one frame to the next.
const pace = 2 * time.Millisecond

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.proxy)
		if err != nil {
			return // the test is at its end
		}
		c.send(ctx, conn)
	}
}

func (c *client) send(ctx context.Context, conn net.Conn) {
	var all sync.WaitGroup
	defer all.Wait()
	defer conn.Close() //nolint:errcheck // it may be cut
	all.Go(func() {
		stamp := make([]byte, 8)
		for {
			if _, err := io.ReadFull(conn, stamp); err != nil {
				return
			}
			c.answered.Store(int64(binary.BigEndian.Uint64(stamp)))
		}
	})
	beat := time.NewTicker(pace)
	defer beat.Stop()
	for n := 0; c.frames == 0 || n < c.frames; n++ {
		if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(overlap.Now()))); err != nil {
			return
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// A siege is the lab.
type siege struct {
	*testing.T
	rng        *rand.Rand
	dir        string
	server     *natslab.Server
	way        *natslab.Relay // of the proxy to the server
	proxy      *proxy.Proxy
	contenders []*contender
	clients    []*client
	blind      []span
	longest    time.Duration // without an answer after a fault
	stop       func()        // ends the proxy and the clients
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	srv := natslab.Start(t)
	s := &siege{T: t, rng: rand.New(rand.NewPCG(*seed, 0)), dir: t.TempDir(), server: srv, way: natslab.NewRelay(t, srv.Addr())}
	for _, id := range []string{"a", "b", "c"} {
		contender := &contender{t: t, id: id, way: natslab.NewRelay(t, srv.Addr()), dir: s.dir}
		contender.start()
		t.Cleanup(contender.end)
		s.contenders = append(s.contenders, contender)
	}
	p, err := proxy.New(natslab.Connect(t, s.way.URL()), bucket, group, proxy.Options{Wait: natslab.Patience, Drain: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.proxy = p
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	s.stop = func() { stop(); all.Wait() }
	t.Cleanup(s.stop)
	all.Go(func() {
		if err := p.Serve(ctx, ln); err != nil {
			t.Errorf("the proxy ended: %v", err)
		}
	})
	for i := range 6 {
		c := &client{proxy: ln.Addr().String(), frames: 25 * (i % 2)} // every other one comes and goes
		s.clients = append(s.clients, c)
		all.Go(func() { c.run(ctx) })
	}
	return s
}

// await waits until something holds for each client.
func (s *siege) await(what string, holds func(*client) bool) {
	s.Helper()
	limit := time.After(natslab.Patience)
	look := time.NewTicker(pace)
	defer look.Stop()
	for {
		all := true
		for _, c := range s.clients {
			all = all && holds(c)
		}
		if all {
			return
		}
		select {
		case <-look.C:
		case <-limit:
			s.Fatalf("not within %v: %s", natslab.Patience, what)
		}
	}
}

// leading returns the instance that the proxy carries to, or any while it knows
// of none.
func (s *siege) leading() *contender {
	id := s.proxy.Stats().Leader.ID
	for _, contender := range s.contenders {
		if contender.id == id {
			return contender
		}
	}
	return s.contenders[s.rng.IntN(len(s.contenders))]
}

// last lets a fault last for half a lease to three.
func (s *siege) last() {
	// This is the fault, and waits for nothing.
	<-time.After(ttl/2 + time.Duration(s.rng.Int64N(int64(5*ttl/2))))
}

// faults are what happens to them.
func (s *siege) faults() map[string]func() {
	return map[string]func(){
		"leader killed": func() { l := s.leading(); l.end(); l.start() },
		"leader frozen": func() {
			l := s.leading()
			l.signal(syscall.SIGSTOP)
			s.last()
			l.signal(syscall.SIGCONT)
		},
		"leader cut off":   func() { l := s.leading(); l.way.Hold(natslab.ToServer, natslab.ToClient); s.last(); l.way.Resume() },
		"leader unheard":   func() { l := s.leading(); l.way.Hold(natslab.ToClient); s.last(); l.way.Reset(); l.way.Resume() },
		"leader resigns":   func() { s.leading().signal(syscall.SIGUSR1) },
		"proxy reset":      func() { s.way.Reset() },
		"proxy cut off":    s.cutOff,
		"server restarted": func() { s.server.Restart() },
		"leader and proxy": func() { l := s.leading(); l.signal(syscall.SIGSTOP); s.cutOff(); l.signal(syscall.SIGCONT) },
		"everybody cut off": func() {
			s.way.Cut()
			l := s.leading()
			l.way.Cut()
			s.last()
			l.way.Resume()
			s.way.Resume()
		},
	}
}

// cutOff cuts the proxy off from the store until it knows of no leader, and a
// little longer.
func (s *siege) cutOff() {
	s.Helper()
	s.way.Hold(natslab.ToServer, natslab.ToClient)
	natslab.Eventually(s, "the proxy carries nothing", func(context.Context) error {
		if id := s.proxy.Stats().Leader.ID; id != "" {
			return fmt.Errorf("%s is known to lead", id)
		}
		// From here on no client ceases to wait. Those that wait were counted
		// first, so that none who came meanwhile hides one that is carried.
		waiting := s.proxy.Stats().Waiting
		if open := s.proxy.Stats().Open; open != waiting {
			return fmt.Errorf("%d connections of clients, of which %d wait", open, waiting)
		}
		return nil
	})
	from := overlap.Now()
	s.last()
	s.blind = append(s.blind, span{from, overlap.Now()})
	s.way.Resume()
}

// It is the one long test here, and has all processors: its leases are short.
func TestNoRequestIsSentToAFormerLeader(t *testing.T) {
	s := newSiege(t)
	s.await("the first answers", func(c *client) bool { return c.answered.Load() > 0 })
	faults := s.faults()
	var order []string
	for name := range faults {
		for range *rounds {
			order = append(order, name)
		}
	}
	slices.Sort(order) // so that the seed decides
	s.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, name := range order {
		faults[name]()
		over := overlap.Now()
		s.await("answers after: "+name, func(c *client) bool { return c.answered.Load() > over })
		s.longest = max(s.longest, time.Duration(overlap.Now()-over))
		s.judge(name)
	}
	s.stop() // what was sent after the last fault counts, too
	s.judge("the end")
	s.sum(len(order))
}

// judge demands that nothing has happened that must not be.
func (s *siege) judge(after string) {
	s.Helper()
	if found := judge(read(s.T, s.dir), s.blind); len(found) > 0 {
		s.Fatalf("after %q: %v", after, found)
	}
}

// sum demands that enough happened, and reports it.
func (s *siege) sum(faults int) {
	s.Helper()
	used, conns, frames := 0, 0, 0
	for _, r := range read(s.T, s.dir) {
		if len(r.frames) > 0 {
			used++
		}
		conns, frames = conns+len(r.uses()), frames+len(r.frames)
	}
	stats := s.proxy.Stats()
	if used < 2 || stats.Cut == 0 {
		s.Errorf("%d processes were sent to, and %d connections cut", used, stats.Cut)
	}
	s.Logf("%d faults: %d frames by %d connections to %d processes; %d connections cut; no answer for %v after a fault at most; no violation",
		faults, frames, conns, used, stats.Cut, s.longest.Round(time.Millisecond))
}
