package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A duplex is one end of a connection whose directions end one by one, in
// virtual time, unlike net.Pipe's.
type duplex struct {
	net.Conn // none: what is not below is not needed

	r, w   net.Conn
	closed atomic.Bool
	reset  atomic.Bool
}

func newDuplex() (near, far *duplex) {
	r1, w1 := net.Pipe()
	r2, w2 := net.Pipe()
	return &duplex{r: r1, w: w2}, &duplex{r: r2, w: w1}
}

func (d *duplex) Read(p []byte) (int, error)  { return d.r.Read(p) }
func (d *duplex) Write(p []byte) (int, error) { return d.w.Write(p) }
func (d *duplex) CloseWrite() error           { return d.w.Close() }
func (d *duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.r.SetDeadline(t), d.w.SetDeadline(t))
}

func (d *duplex) SetReadDeadline(t time.Time) error { return d.r.SetReadDeadline(t) }
func (d *duplex) RemoteAddr() net.Addr              { return d.r.RemoteAddr() }

func (d *duplex) SetLinger(sec int) error {
	d.reset.Store(sec == 0)
	return nil
}

func (d *duplex) Close() error {
	d.closed.Store(true)
	return errors.Join(d.r.Close(), d.w.Close())
}

// A lane is a link under way, between a client and a leader that the test
// plays.
type lane struct {
	t                *testing.T
	client, leader   *duplex // the ends of the test
	toClient, toLead *duplex // the ends of the link
	ended            chan struct{}
}

func newLane(t *testing.T) *lane {
	t.Helper()
	l := &lane{t: t, ended: make(chan struct{})}
	l.client, l.toClient = newDuplex()
	l.leader, l.toLead = newDuplex()
	go func() {
		defer close(l.ended)
		(&link{client: l.toClient, leader: l.toLead}).carry(new(counters))
	}()
	return l
}

func (l *lane) over() bool {
	synctest.Wait()
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// passes demands that a word arrives.
func (l *lane) passes(from io.Writer, to io.Reader, word string) {
	l.t.Helper()
	go func() { _, _ = io.WriteString(from, word) }()
	got := make([]byte, len(word))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != word {
		l.t.Fatalf("%q arrives as %q, %v", word, got, err)
	}
}

// ends demands how the link has ended: both connections closed, and reset or
// not.
func (l *lane) ends(clientReset, leaderReset bool) {
	l.t.Helper()
	if !l.over() {
		l.t.Error("the link goes on")
	}
	for name, c := range map[string]struct {
		end   *duplex
		reset bool
	}{"client": {l.toClient, clientReset}, "leader": {l.toLead, leaderReset}} {
		if !c.end.closed.Load() || c.end.reset.Load() != c.reset {
			l.t.Errorf("the connection to the %s: closed %v, reset %v, want it closed, and reset %v",
				name, c.end.closed.Load(), c.end.reset.Load(), c.reset)
		}
	}
}

func TestOneDirectionGoesOnForLongWhenTheOtherHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		_ = l.client.CloseWrite()
		time.Sleep(time.Hour)
		l.passes(l.leader, l.client, "late")
		_ = l.leader.CloseWrite()
		l.ends(false, false)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		_ = l.leader.CloseWrite()
		time.Sleep(time.Hour)
		l.passes(l.client, l.leader, "late")
		_ = l.client.CloseWrite()
		l.ends(false, false)
	})
}

// The last output of a side that reads no more is passed on.
func TestTheLastOutputOfASideThatStoppedReadingIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		_ = l.leader.r.Close()
		_, _ = l.client.Write([]byte("to nobody"))
		time.Sleep(lull / 2)
		l.passes(l.leader, l.client, "refused")
		time.Sleep(lull)
		l.ends(true, true)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		_ = l.client.r.Close()
		_, _ = l.leader.Write([]byte("to nobody"))
		time.Sleep(lull / 2)
		l.passes(l.client, l.leader, "quit")
		time.Sleep(lull)
		l.ends(true, true)
	})
}

// Also where the other direction cannot get rid of what it has.
func TestAFailureEndsADirectionThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		go func() { _, _ = l.leader.Write([]byte("nobody reads it")) }()
		synctest.Wait()
		_ = l.leader.r.Close()
		_, _ = l.client.Write([]byte("to nobody"))
		time.Sleep(2 * lull)
		l.ends(true, true)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLane(t)
		go func() { _, _ = l.client.Write([]byte("nobody reads it")) }()
		synctest.Wait()
		_ = l.client.r.Close()
		_, _ = l.leader.Write([]byte("to nobody"))
		time.Sleep(2 * lull)
		l.ends(true, true)
	})
}

// whole is a connection that cannot end one direction.
type whole struct{ net.Conn }

func TestWithoutHalvesTheEndOfOneDirectionEndsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, toClient := net.Pipe()
		leader, toLeader := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			(&link{client: whole{toClient}, leader: whole{toLeader}}).carry(new(counters))
		}()
		_ = client.Close()
		if _, err := leader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		<-ended
	})
}

// A swallow takes what it is sent, and notes how much it is offered at a time.
type swallow struct {
	net.Conn

	offered []int64
}

func (s *swallow) ReadFrom(r io.Reader) (int64, error) {
	l, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, errors.New("no limit")
	}
	s.offered = append(s.offered, l.N)
	if len(s.offered) == 10 {
		return 0, nil // the end
	}
	return l.N, nil
}

func (s *swallow) Close() error { return nil }

func TestAFastConnectionIsCarriedInLargeChunksAndCounted(t *testing.T) {
	var count atomic.Uint64
	s := &swallow{}
	synctest.Test(t, func(t *testing.T) {
		if err := carry(s, nil, &count); err != nil {
			t.Error(err)
		}
	})
	if last := s.offered[len(s.offered)-1]; s.offered[0] != minChunk || last != maxChunk {
		t.Errorf("%d bytes at a time", s.offered)
	}
	var sum int64
	for _, n := range s.offered[:9] {
		sum += n
	}
	if count.Load() != uint64(sum) {
		t.Errorf("%d bytes are counted, want %d", count.Load(), sum)
	}
}
