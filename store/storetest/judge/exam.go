package judge

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An exam is the examination of one case.
type exam struct {
	*testing.T
	subject Subject
	opts    Options
}

// nowhere is an address at which nothing listens.
const nowhere = "127.0.0.1:1"

// run runs a part of the case as a subtest.
func (x *exam) run(name string, part func(*exam)) {
	x.Run(name, func(t *testing.T) { part(&exam{T: t, subject: x.subject, opts: x.opts}) })
}

// registers makes registers for the case.
func (x *exam) registers() Registers {
	x.Helper()
	r := x.subject.Registers(x.T)
	if len(x.subject.Addrs) > 0 && r.At == nil {
		x.Fatal("Registers.At is nil, and Subject.Addrs names a server: provide both, or neither")
	}
	if r.Unreached == nil {
		r.Unreached = r.At
	}
	return r
}

// addr returns the address of a server for the client of that number.
func (x *exam) addr(client int) string { return x.subject.Addrs[client%len(x.subject.Addrs)] }

// within returns a context for a call that has to succeed.
func (x *exam) within() context.Context {
	ctx, cancel := context.WithTimeout(x.Context(), x.opts.Patience)
	x.Cleanup(cancel)
	return ctx
}

// brief returns a context for a call that does not end by itself.
func (x *exam) brief() context.Context {
	ctx, cancel := context.WithTimeout(x.Context(), 300*time.Millisecond)
	x.Cleanup(cancel)
	return ctx
}

// eventually tries f until it returns nil. Each try has 2 s, and twice as long
// as the one before if that was not enough.
func (x *exam) eventually(what string, f func(context.Context) error) {
	x.Helper()
	limit := x.within()
	for span := 2 * time.Second; ; {
		ctx, cancel := context.WithTimeout(limit, span)
		err := f(ctx)
		if ctx.Err() != nil {
			span *= 2
		}
		cancel()
		if err == nil {
			return
		}
		select {
		case <-limit.Done():
			x.Fatalf("not within %v: %s: %v", x.opts.Patience, what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// must sends a write that has to be applied, again for as long as it had no
// effect.
func (x *exam) must(s store.Store, w store.Write) (rev uint64) {
	x.Helper()
	x.eventually("writing "+w.Key, func(context.Context) (err error) {
		rev, err = s.CompareAndSwap(x.within(), w)
		if o := store.Classify(err); o != store.OK && o != store.Transient {
			x.Fatalf("writing %s over %d: %v", w.Key, w.Expected, err)
		}
		return err
	})
	return rev
}

// get reads the key, again for as long as the store cannot.
func (x *exam) get(s store.Store, key string) (e store.Entry) {
	x.Helper()
	x.eventually("reading "+key, func(context.Context) (err error) {
		e, err = s.Get(x.within(), key)
		if o := store.Classify(err); o != store.OK && o != store.Transient {
			x.Fatalf("reading %s: %v", key, err)
		}
		return err
	})
	return e
}

// settle writes the key over whatever it holds, until that is acknowledged.
func (x *exam) settle(s store.Store, key string) {
	x.Helper()
	x.eventually("another write of "+key, func(ctx context.Context) error {
		e, err := s.Get(ctx, key)
		if err == nil {
			_, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: e.Revision, Value: []byte("settled")})
		}
		return err
	})
}

// outcome demands that err is of the class.
func (x *exam) outcome(what string, err error, want store.Outcome) {
	x.Helper()
	if got := store.Classify(err); got != want {
		x.Fatalf("%s: got %v, want %v: %v", what, got, want, err)
	}
}
