package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

var errNotYet = errors.New("not yet")

// lostAnswers loses the answer to a write in each way, and of each kind.
func (x *exam) lostAnswers() {
	regs := x.registers()
	n := 0
	for _, lose := range []struct {
		name   string
		happen func(r *relay.Relay, giveUp context.CancelFunc)
	}{
		{"the caller gives up", func(_ *relay.Relay, giveUp context.CancelFunc) { giveUp() }},
		// Held data is lost by that, and the next connection is not held.
		{"the connection is reset", func(r *relay.Relay, _ context.CancelFunc) { r.Reset(); r.Resume() }},
		{"the connection is closed", func(r *relay.Relay, _ context.CancelFunc) { r.Drop(); r.Resume() }},
	} {
		for _, create := range []bool{true, false} {
			n++
			key := fmt.Sprint("lost", n)
			x.run(fmt.Sprint(lose.name, ", creation ", create), func(x *exam) { x.lose(regs, key, create, lose.happen) })
		}
	}
}

// lose loses the answer to one write.
func (x *exam) lose(regs Registers, key string, create bool, lose func(*relay.Relay, context.CancelFunc)) {
	way := relay.New(x.T, x.addr(0))
	s, sound := regs.At(x.T, way.Addr()), regs.Open(x.T)
	first := uint64(0)
	if !create {
		first = x.must(sound, store.Write{Key: key, Value: []byte("first")})
	}
	// Whatever comes before a first write is over with this one, which is
	// refused.
	_, err := s.CompareAndSwap(x.within(), store.Write{Key: key, Expected: first + 1})
	x.outcome("a write over a later revision", err, store.Conflict)
	x.get(s, key)
	writes := func() int64 { return 1 }
	if regs.Writes != nil {
		before := regs.Writes()
		writes = func() int64 { return regs.Writes() - before }
	}

	way.Hold(relay.ToClient)
	ctx, giveUp := context.WithCancel(x.within())
	defer giveUp()
	result := make(chan error, 1)
	go func() {
		_, err := s.CompareAndSwap(ctx, store.Write{Key: key, Expected: first, Value: []byte("second")})
		result <- err
	}()
	var applied store.Entry
	x.eventually("the write is applied", func(context.Context) error {
		if applied = x.get(sound, key); string(applied.Value) != "second" {
			return errNotYet
		}
		return nil
	})
	lose(way, giveUp)
	x.outcome("a write whose answer was lost", <-result, store.Unknown)
	way.Resume()
	x.eventually("the store serves again", func(ctx context.Context) error {
		_, err := s.Get(ctx, key)
		return err
	})
	if n := writes(); n != 1 {
		x.Errorf("one call sent %d writes", n)
	}
	if e := x.get(sound, key); e.Revision != applied.Revision {
		x.Errorf("one call left revision %d, and then %d", applied.Revision, e.Revision)
	}
	_, err = sound.CompareAndSwap(x.within(), store.Write{Key: key, Expected: first})
	x.outcome("a write over the revision before", err, store.Conflict)
}

// unsent makes writes that have no way to a server.
func (x *exam) unsent() {
	regs := x.registers()
	sound := regs.Open(x.T)
	never := func(key string) {
		x.Helper()
		if e := x.get(sound, key); e.Revision != 0 {
			x.Errorf("a write that never left is there: %+v", e)
		}
	}
	x.run("nothing listens", func(x *exam) {
		s := regs.Unreached(x.T, nowhere)
		ctx, cancel := context.WithTimeout(x.Context(), time.Second)
		defer cancel()
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "unsent", Value: []byte("v")})
		x.outcome("a write", err, store.Transient)
		_, err = s.Get(x.brief(), "unsent")
		x.outcome("a read", err, store.Transient)
	})
	x.run("the context has ended", func(x *exam) {
		way := relay.New(x.T, x.addr(0))
		s := regs.At(x.T, way.Addr())
		x.settle(s, "there")
		ctx, cancel := context.WithCancel(x.Context())
		cancel()
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "unsent", Value: []byte("v")})
		x.outcome("a write", err, store.Transient)
		_, err = s.Get(ctx, "unsent")
		x.outcome("a read", err, store.Transient)
		x.settle(s, "there") // by what the write would have taken
	})
	x.run("the server is cut off", func(x *exam) {
		way := relay.New(x.T, x.addr(0))
		s := regs.At(x.T, way.Addr())
		x.settle(s, "there")
		way.Leave()
		// The end of a connection is noticed a moment later. A write before that may
		// have left, so that each has a key of its own.
		w, attempt := store.Write{Value: []byte("v")}, 0
		x.eventually("a write is known not to have left", func(ctx context.Context) error {
			attempt++
			w.Key = fmt.Sprint("unsent-", attempt)
			_, err := s.CompareAndSwap(ctx, w)
			switch o := store.Classify(err); o {
			case store.Transient:
				return nil
			case store.Unknown:
				return err
			default:
				x.Fatalf("a write without a server: %v: %v", o, err)
				return nil
			}
		})
		_, err := s.Get(x.brief(), "unsent")
		x.outcome("a read", err, store.Transient)
		way.Resume()
		x.settle(s, "there") // after what the client may have kept
		never(w.Key)
	})
	never("unsent")
}

// invalid has a store refuse what it need not ask a server about.
func (x *exam) invalid() {
	s := x.registers().Unreached(x.T, nowhere)
	writes := []store.Write{{Key: ""}, {Key: "a b"}, {Key: "a..b"}, {Key: "a' OR '1"}, {Key: strings.Repeat("k", store.MaxKey+1)}}
	if n := x.opts.MaxValue; n > 0 {
		writes = append(writes, store.Write{Key: "a", Value: make([]byte, n+1)})
	}
	for _, w := range writes {
		if _, err := s.CompareAndSwap(x.brief(), w); !errors.Is(err, store.ErrInvalid) {
			x.Errorf("a write of key %q with %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(x.brief(), "a b"); !errors.Is(err, store.ErrInvalid) {
		x.Errorf("a read: %v", err)
	}
	if w, ok := s.(store.Watcher); ok {
		if _, err := w.Watch(x.brief(), []string{"*"}, func(store.Entry) {}); !errors.Is(err, store.ErrInvalid) {
			x.Errorf("a watch: %v", err)
		}
	}
}

// closed closes a store, and the connection of another.
func (x *exam) closed() {
	regs := x.registers()
	s := regs.Open(x.T)
	x.settle(s, "closed")
	if !x.close(s) {
		x.Skip("the store has no method Close")
	}
	x.saysClosed(s)
	if regs.Lend == nil {
		return
	}
	x.run("of a connection that is lent", func(x *exam) {
		loan := regs.Lend(x.T)
		x.settle(loan.Store, "closed")
		x.close(loan.Store)
		x.saysClosed(loan.Store)
		if err := loan.Works(); err != nil {
			x.Errorf("the store closed the connection that it was given: %v", err)
		}
	})
	x.run("after its connection", func(x *exam) {
		loan := regs.Lend(x.T)
		if loan.End == nil {
			x.Skip("Loan.End is nil: nothing closes a connection")
		}
		x.settle(loan.Store, "closed")
		if err := loan.End(); err != nil {
			x.Fatal(err)
		}
		x.saysClosed(loan.Store)
	})
}

// close closes the store twice, and reports whether it can be closed.
func (x *exam) close(s store.Store) bool {
	x.Helper()
	for range 2 {
		switch c := s.(type) {
		case interface{ Close() error }:
			if err := c.Close(); err != nil {
				x.Errorf("closing: %v", err)
			}
		case interface{ Close() }:
			c.Close()
		default:
			return false
		}
	}
	return true
}

// saysClosed demands that each call of the store fails, now and for ever.
func (x *exam) saysClosed(s store.Store) {
	x.Helper()
	demand := func(what string, call func(context.Context) error) {
		x.Helper()
		if err := call(x.within()); !errors.Is(err, store.ErrClosed) {
			x.Errorf("%s of a closed store: %v", what, err)
		}
	}
	demand("a write", func(ctx context.Context) error {
		_, err := s.CompareAndSwap(ctx, store.Write{Key: "closed"})
		return err
	})
	demand("a read", func(ctx context.Context) error { _, err := s.Get(ctx, "closed"); return err })
	if c, ok := s.(store.Checker); ok {
		demand("a check", func(ctx context.Context) error {
			_, err := c.Check(ctx, store.CheckRequest{TTL: 10 * time.Second, HeartbeatInterval: time.Second, Key: "closed"})
			return err
		})
	}
	// A watch, and who asks for the state, hear a moment later of a connection
	// that was closed beneath them.
	if w, ok := s.(store.Watcher); ok {
		x.eventually("a watch is refused", func(ctx context.Context) error {
			stop, err := w.Watch(ctx, []string{"closed"}, func(store.Entry) {})
			if err == nil {
				stop()
				return errNotYet
			}
			if !errors.Is(err, store.ErrClosed) {
				return err
			}
			return nil
		})
	}
	if c, ok := s.(store.ConnReporter); ok {
		x.eventually("the connection counts as closed", func(context.Context) error {
			if state := c.ConnState(); state != store.Closed {
				return errors.New(state.String())
			}
			return nil
		})
	}
}

// frozen writes to a server that does not answer for a while.
func (x *exam) frozen() {
	regs := x.registers()
	var s store.Store
	p, ok := x.subject.process(freezable)
	if ok {
		s = regs.Open(x.T)
	} else { // it is somebody else's, and seems frozen to one client
		way := relay.New(x.T, x.addr(0))
		s = regs.At(x.T, way.Addr())
		p.Freeze, p.Thaw = func() { way.Hold(relay.ToServer, relay.ToClient) }, way.Resume
	}
	var rev uint64
	var err, unread error
	for span := time.Second; ; span *= 2 {
		rev = x.must(s, store.Write{Key: "frozen", Expected: x.get(s, "frozen").Revision, Value: []byte("first")})
		p.Freeze()
		ctx, cancel := context.WithTimeout(x.Context(), span)
		_, err = s.CompareAndSwap(ctx, store.Write{Key: "frozen", Expected: rev, Value: []byte("late")})
		cancel()
		_, unread = s.Get(x.brief(), "frozen")
		p.Thaw()
		// A write that did not leave in time, as on a stalled machine, shows
		// nothing, and may have cost the client its connection.
		if store.Classify(err) != store.Transient || span > x.opts.Patience {
			break
		}
	}
	x.outcome("a write to a frozen server", err, store.Unknown)
	x.outcome("a read from a frozen server", unread, store.Transient)
	if x.opts.LateWritesLand {
		x.eventually("the write is applied", func(context.Context) error {
			if e := x.get(s, "frozen"); string(e.Value) != "late" || e.Revision <= rev {
				return errNotYet
			}
			return nil
		})
	}
	x.settle(s, "frozen") // it was applied or was not
}
