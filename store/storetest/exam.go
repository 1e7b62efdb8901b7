package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An exam is one claim's examination of one harness.
type exam struct {
	testing.TB
	caps Caps
	h    Harness
}

// key is the register of claims that need only one.
const key = "group"

// within returns a context that ends after the suite's patience.
func (x *exam) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), x.caps.Patience)
}

func (x *exam) open() store.Store {
	x.Helper()
	s := x.h.Open(x)
	if s == nil {
		x.Fatal("Harness.Open returned nil")
	}
	return s
}

// clients opens n clients.
func (x *exam) clients(n int) []store.Store {
	x.Helper()
	cs := make([]store.Store, n)
	for i := range cs {
		cs[i] = x.open()
	}
	return cs
}

// poll calls f until it returns true, and fails the claim if that takes too
// long.
func (x *exam) poll(what string, f func() bool) {
	x.Helper()
	for start := time.Now(); !f(); {
		if time.Since(start) > x.caps.Patience {
			x.Fatalf("%s: not within %v", what, x.caps.Patience)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// cas sends one write, again for as long as the store refuses to look at it.
func (x *exam) cas(s store.Store, w store.Write) (uint64, error) {
	ctx, cancel := x.within()
	defer cancel()
	for {
		rev, err := s.CompareAndSwap(ctx, w)
		if store.Classify(err) != store.Transient || ctx.Err() != nil {
			return rev, x.sane(w, rev, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// begun begins a watch, again for as long as the store cannot just now, and
// returns what stops it. Nothing is watched after a failure.
func (x *exam) begun(what string, begin func() (stop func(), err error)) (stop func()) {
	x.Helper()
	for start := time.Now(); ; {
		stop, err := begin()
		switch {
		case err == nil:
			return stop
		case store.Classify(err) != store.Transient || time.Since(start) > x.caps.Patience:
			x.Fatalf("%s: %v", what, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// sane turns a result that no store may give into an error without a class.
func (x *exam) sane(w store.Write, rev uint64, err error) error {
	switch {
	case err == nil && rev == 0:
		return errors.New("a write was acknowledged with revision 0")
	case err == nil && rev <= w.Expected:
		return fmt.Errorf("a write that expected revision %d was acknowledged with revision %d", w.Expected, rev)
	case err != nil && rev != 0:
		return fmt.Errorf("a failed write returned revision %d beside the error: %w", rev, err)
	}
	return err
}

// must sends a write that has to be applied, and returns its revision.
func (x *exam) must(s store.Store, w store.Write) uint64 {
	x.Helper()
	rev, err := x.cas(s, w)
	if err != nil {
		x.Fatalf("CompareAndSwap(key %q, expected %d, %d bytes, tombstone %t): %v",
			w.Key, w.Expected, len(w.Value), w.Tombstone, err)
	}
	return rev
}

// put sends a plain write that has to be applied.
func (x *exam) put(s store.Store, key string, expected uint64, value string) uint64 {
	x.Helper()
	return x.must(s, store.Write{Key: key, Expected: expected, Value: []byte(value)})
}

// conflicts sends a write that has to be refused as a conflict.
func (x *exam) conflicts(s store.Store, key string, expected uint64) {
	x.Helper()
	rev, err := x.cas(s, store.Write{Key: key, Expected: expected, Value: []byte("refused")})
	if store.Classify(err) != store.Conflict {
		x.Fatalf("CompareAndSwap(key %q, expected %d) = %d, %v; want a conflict", key, expected, rev, err)
	}
}

// get reads the register, again for as long as the failure is transient.
func (x *exam) get(s store.Store, key string) store.Entry {
	x.Helper()
	e, err := x.read(s, key)
	if err != nil {
		x.Fatalf("Get(%q): %v", key, err)
	}
	x.consistent(key, e)
	return e
}

// read is get for a separate goroutine, which may not end the claim.
func (x *exam) read(s store.Store, key string) (store.Entry, error) {
	ctx, cancel := x.within()
	defer cancel()
	for {
		e, err := s.Get(ctx, key)
		if store.Classify(err) != store.Transient || ctx.Err() != nil {
			return e, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// consistent checks what holds for every entry of the key.
func (x *exam) consistent(key string, e store.Entry) {
	x.Helper()
	if e.Key != key {
		x.Errorf("the entry of key %q has the key %q", key, e.Key)
	}
	if e.Revision == 0 && (len(e.Value) != 0 || e.Tombstone) {
		x.Errorf("the entry of unknown key %q is not empty: %+v", key, e)
	}
}

// reach reads until the register has at least this revision: reads may be
// stale.
func (x *exam) reach(s store.Store, key string, at uint64) store.Entry {
	x.Helper()
	var e store.Entry
	x.poll(fmt.Sprintf("Get of key %q at revision %d or later", key, at), func() bool {
		e = x.get(s, key)
		return e.Revision >= at
	})
	return e
}

// holds checks that the register has the revision with the value.
func (x *exam) holds(s store.Store, key string, rev uint64, value []byte, tombstone bool) {
	x.Helper()
	e := x.reach(s, key, rev)
	if e.Revision != rev {
		x.Fatalf("key %q is at revision %d, want %d", key, e.Revision, rev)
	}
	if !bytes.Equal(e.Value, value) {
		x.Fatalf("key %q at revision %d holds %s, want %s", key, rev, brief(e.Value), brief(value))
	}
	if e.Tombstone != tombstone {
		x.Fatalf("key %q at revision %d: tombstone is %t, want %t", key, rev, e.Tombstone, tombstone)
	}
}

// deleted deletes the key by the foreign tool and waits until s sees it. The
// entry is a bare tombstone, or one with revision 0 if the tool leaves no
// trace.
func (x *exam) deleted(s store.Store, key string, before uint64) store.Entry {
	x.Helper()
	if err := x.h.Delete(key); err != nil {
		x.Fatalf("Harness.Delete(%q): %v", key, err)
	}
	return x.after(s, key, before, "the foreign deletion", func(store.Entry) bool { return true })
}

// goneReads is how many reads in a row must show nothing of a key before that
// counts as the current state: a lagging replica may know nothing of it yet.
const goneReads = 50

// after reads until the register shows something later than a revision that
// fits, or nothing any more: reads may be stale.
func (x *exam) after(s store.Store, key string, rev uint64, what string, fits func(store.Entry) bool) store.Entry {
	x.Helper()
	var e store.Entry
	gone := 0
	x.poll(what+" to be seen", func() bool {
		if e = x.get(s, key); e.Revision == 0 {
			gone++
		} else {
			gone = 0
		}
		return e.Revision > rev && fits(e) || gone >= goneReads
	})
	return e
}

// brief shows a value in a failure's text.
func brief(v []byte) string {
	if len(v) > 48 {
		return strconv.Quote(string(v[:48])) + fmt.Sprintf("… (%d bytes)", len(v))
	}
	return strconv.Quote(string(v))
}
