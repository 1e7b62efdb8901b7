package trial

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Way is how stores reach the same registers on a server, whose answers may
// be lost on it.
type Way struct {
	// Addr is the server's host:port.
	Addr string
	// Open returns a store that reaches the server by host:port, which may be
	// that of a proxy. It is closed with tb.Cleanup.
	Open func(tb testing.TB, addr string) store.Store
	// Sound is a store by a way that nothing spoils. Nil stands for one that
	// Open returns for Addr.
	Sound store.Store
	// Writes is how many writes have reached the server, for whatever key. Nil
	// leaves it to the registers to show that a write was sent once.
	Writes func() int64
}

// LostAnswers judges writes that the server applies, and whose answers do not
// reach the store: they are of unknown outcome, and were sent once.
func LostAnswers(t *testing.T, w Way) {
	t.Helper()
	if w.Sound == nil {
		w.Sound = w.Open(t, w.Addr)
	}
	n := 0
	for _, lose := range []struct {
		name   string
		happen func(p *natslab.Proxy, giveUp context.CancelFunc)
	}{
		{"the caller gives up", func(_ *natslab.Proxy, giveUp context.CancelFunc) { giveUp() }},
		{"the connection is reset", func(p *natslab.Proxy, _ context.CancelFunc) { p.Reset() }},
		{"the connection is closed", func(p *natslab.Proxy, _ context.CancelFunc) { p.Drop() }},
	} {
		for _, create := range []bool{true, false} {
			n++
			key := fmt.Sprint("lost", n)
			t.Run(fmt.Sprint(lose.name, ", creation ", create), func(t *testing.T) {
				w.lose(t, key, create, lose.happen)
			})
		}
	}
}

// lose has the answer to one write lost.
func (w Way) lose(t *testing.T, key string, create bool, lose func(*natslab.Proxy, context.CancelFunc)) {
	p, sound := natslab.NewProxy(t, w.Addr), w.Sound
	s := w.Open(t, p.Addr())
	first := uint64(0)
	if !create {
		first = Must(t, sound, store.Write{Key: key, Value: []byte("first")})
	}
	// By a connection that is there, and with whatever comes before the first
	// write; it is refused.
	_, err := s.CompareAndSwap(Within(t), store.Write{Key: key, Expected: first + 1})
	Outcome(t, err, store.Conflict)
	Get(t, s, key)
	before := w.writes()

	p.Hold(natslab.ToClient)
	ctx, giveUp := context.WithCancel(Within(t))
	defer giveUp()
	result := make(chan error, 1)
	go func() {
		_, err := s.CompareAndSwap(ctx, store.Write{Key: key, Expected: first, Value: []byte("second")})
		result <- err
	}()
	var applied store.Entry
	Await(t, "the write is applied", func() bool {
		applied = Get(t, sound, key)
		return string(applied.Value) == "second"
	})
	lose(p, giveUp)
	Outcome(t, <-result, store.Unknown)
	p.Resume()
	natslab.Eventually(t, "the store serves again", func(ctx context.Context) error {
		_, err := s.Get(ctx, key)
		return err
	})
	if n := w.writes() - before; w.Writes != nil && n != 1 {
		t.Errorf("one call sent %d writes", n)
	}
	if e := Get(t, sound, key); e.Revision != applied.Revision {
		t.Errorf("one call left revision %d, and then %d", applied.Revision, e.Revision)
	}
	_, err = sound.CompareAndSwap(Within(t), store.Write{Key: key, Expected: first})
	Outcome(t, err, store.Conflict)
}

func (w Way) writes() int64 {
	if w.Writes == nil {
		return 0
	}
	return w.Writes()
}

// A Freezer is a server whose processes may be stopped for a while, as by
// SIGSTOP. Its sockets take what is sent to it.
type Freezer interface {
	Freeze()
	Thaw()
}

// Unanswered makes a write to a server that answers nothing now, and returns
// how it ended. One that did not leave before its time was over, as on a
// machine that stands still for a while, shows nothing, so it is made again
// with more.
func Unanswered(tb testing.TB, s store.Store, w store.Write) error {
	for span := time.Second; ; span *= 2 {
		ctx, cancel := context.WithTimeout(tb.Context(), span)
		_, err := s.CompareAndSwap(ctx, w)
		cancel()
		if store.Classify(err) != store.Transient || span > natslab.Patience {
			return err
		}
	}
}

// NotSent makes a write to a server that is gone, until it is known never to
// have left. The end of a connection of before is noticed a moment later.
func NotSent(tb testing.TB, s store.Store, w store.Write) {
	tb.Helper()
	natslab.Eventually(tb, "a write is not sent", func(ctx context.Context) error {
		_, err := s.CompareAndSwap(ctx, w)
		if o := store.Classify(err); o != store.Transient && o != store.Unknown {
			tb.Fatalf("a write to a server that is gone: %v (%v)", o, err)
		} else if o == store.Unknown {
			return err
		}
		return nil
	})
}

// Frozen judges a write to a server that does not answer for a while: it is of
// unknown outcome, and may land later, or does, where lands tells that what the
// server was sent is executed whenever it goes on. A read changes nothing, and
// says so.
func Frozen(t *testing.T, s store.Store, server Freezer, lands bool) {
	t.Helper()
	rev := Must(t, s, store.Write{Key: "frozen", Value: []byte("first")})
	server.Freeze()
	err := Unanswered(t, s, store.Write{Key: "frozen", Expected: rev, Value: []byte("late")})
	_, unread := s.Get(Brief(t), "frozen")
	server.Thaw()
	Outcome(t, err, store.Unknown)
	Outcome(t, unread, store.Transient)
	if lands {
		Await(t, "the write lands", func() bool {
			e := Get(t, s, "frozen")
			return string(e.Value) == "late" && e.Revision > rev
		})
	}
	// It was applied or was not, and the next write finds out which.
	natslab.Eventually(t, "the next write", func(ctx context.Context) error {
		e, err := s.Get(ctx, "frozen")
		if err == nil {
			_, err = s.CompareAndSwap(ctx, store.Write{Key: "frozen", Expected: e.Revision, Value: []byte("third")})
		}
		return err
	})
}

// SaysClosed judges calls on stores that are closed for good.
func SaysClosed[S store.Store](t *testing.T, stores ...S) {
	t.Helper()
	for _, s := range stores {
		if _, err := s.CompareAndSwap(Within(t), store.Write{Key: "closed"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(Within(t), "closed"); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a read: %v", err)
		}
		if c, ok := any(s).(store.Checker); ok {
			if _, err := Check(t, c); !errors.Is(err, store.ErrClosed) {
				t.Errorf("a check: %v", err)
			}
		}
	}
}
