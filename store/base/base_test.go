package base_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A system is a client of registers in memory.
type system struct {
	registers store.Store
	calls     int
	deadline  time.Duration // of the last call
	hang      chan struct{} // if not nil, a read waits until it is closed
	denied    string        // a key that the user may not read
	readOnly  bool
}

func (s *system) called(ctx context.Context) {
	s.calls++
	at, _ := ctx.Deadline()
	s.deadline = time.Until(at)
}

func (s *system) Read(ctx context.Context, keys []string) (entries []store.Entry, err error) {
	s.called(ctx)
	if s.hang != nil {
		<-s.hang
		return nil, store.ErrTransient
	}
	for _, key := range keys {
		if key == s.denied {
			return nil, fmt.Errorf("%w: %s", store.ErrPermanent, key)
		}
		e, err := s.registers.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if e.Revision != 0 {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (s *system) List(context.Context, string) ([]store.Entry, error) { return nil, nil }

func (s *system) Swap(ctx context.Context, w store.Write) (uint64, error) {
	s.called(ctx)
	if s.readOnly {
		return 0, store.ErrPermanent
	}
	return s.registers.CompareAndSwap(ctx, w)
}

func newStore(t *testing.T, opts base.Options) (*base.Store, *system) {
	t.Helper()
	sys := &system{registers: memstore.New()}
	s, err := base.New(sys, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, sys
}

func TestInvalidCallsAreNotSent(t *testing.T) {
	s, sys := newStore(t, base.Options{Name: "memory", MaxValue: 4})
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller is gone")
	cancel(why)
	swap := func(ctx context.Context, w store.Write) error { _, err := s.CompareAndSwap(ctx, w); return err }
	get := func(ctx context.Context, key string) error { _, err := s.Get(ctx, key); return err }
	for name, c := range map[string]struct {
		err, is error
		text    string
	}{
		"get of an invalid key":   {get(t.Context(), "a b"), store.ErrInvalid, `"a b"`},
		"write to an invalid key": {swap(t.Context(), store.Write{Key: strings.Repeat("x", 999)}), store.ErrInvalid, `x…"`},
		"large value":             {swap(t.Context(), store.Write{Key: "a", Value: []byte("12345")}), store.ErrInvalid, "has 5 bytes: must be at most 4"},
		"huge revision":           {swap(t.Context(), store.Write{Key: "a", Expected: math.MaxUint64}), store.ErrConflict, "no register"},
		"get, context done":       {get(gone, "a"), store.ErrTransient, "memory: nothing was sent"},
		"write, context done":     {swap(gone, store.Write{Key: "a"}), why, "memory: nothing was sent"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: got %v, want %v with %q", name, c.err, c.is, c.text)
		}
	}
	if sys.calls != 0 {
		t.Errorf("%d calls reached the system", sys.calls)
	}
}

func TestCallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sys := newStore(t, base.Options{Timeout: time.Minute})
		if e, err := s.Get(t.Context(), "a"); err != nil || e.Key != "a" || sys.deadline != time.Minute {
			t.Errorf("Get returned %+v, %v within %v, want the options' minute", e, err, sys.deadline)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); err != nil || sys.deadline != time.Hour {
			t.Errorf("CompareAndSwap returned %v within %v, want the caller's hour", err, sys.deadline)
		}
		if e, err := s.Get(ctx, "a"); err != nil || e.Revision == 0 {
			t.Errorf("Get returned %+v, %v, want the write", e, err)
		}
	})
}

func TestCloseEndsCallsAndReleasesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		s, sys := newStore(t, base.Options{Release: func() error { released++; return nil }})
		sys.hang = make(chan struct{})
		under := make(chan error)
		go func() { _, err := s.Get(t.Context(), "a"); under <- err }()
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		close(sys.hang)
		if err := <-under; !errors.Is(err, store.ErrClosed) {
			t.Errorf("a call during Close: %v, want ErrClosed", err)
		}
		if _, err := s.CompareAndSwap(t.Context(), store.Write{Key: "a"}); !errors.Is(err, store.ErrClosed) || released != 1 {
			t.Errorf("a write after Close: %v, want ErrClosed; released %d times", err, released)
		}
	})
}

func TestMissingRightsAreFoundByTrial(t *testing.T) {
	req := store.CheckRequest{Key: "a", Reads: []string{"b"}}
	for name, c := range map[string]struct {
		denied             string
		readOnly           bool
		readable, writable bool
	}{
		"all rights":           {readable: true, writable: true},
		"no read of the key":   {denied: "a"},
		"no read of another":   {denied: "b"},
		"no right to write":    {readOnly: true, readable: true},
		"no write, key unread": {denied: "a", readOnly: true},
	} {
		s, sys := newStore(t, base.Options{})
		sys.denied, sys.readOnly = c.denied, c.readOnly
		if err := base.Readable(t.Context(), s, req); (err == nil) != c.readable || err != nil && !errors.Is(err, store.ErrPermanent) {
			t.Errorf("%s: Readable returned %v", name, err)
		}
		if err := base.Usable(t.Context(), s, req); (err == nil) != c.writable || err != nil && !errors.Is(err, store.ErrPermanent) {
			t.Errorf("%s: Usable returned %v", name, err)
		}
		if e, err := sys.registers.Get(t.Context(), "a"); err != nil || e.Revision != 0 {
			t.Errorf("%s: the trial wrote %+v, %v", name, e, err)
		}
	}
}

func TestNewListsAllFaults(t *testing.T) {
	_, err := base.New(&system{}, base.Options{Timeout: -1, Every: -1})
	if err == nil || !strings.Contains(err.Error(), "Timeout -1ns: must not") || !strings.Contains(err.Error(), "Every -1ns: must not") {
		t.Errorf("got %v", err)
	}
}

func TestQueryNamesParameterValueAndRule(t *testing.T) {
	u, err := url.Parse("x://h?a=1&e=http://h:1&b=true&n=7&d=3s&bad=maybe&worse=y&twice=a&twice=b&odd=ftp://u:secret@h&left=1")
	if err != nil {
		t.Fatal(err)
	}
	q := base.Parameters(u)
	if q.Text("a") != "1" || q.Endpoint("e") != "http://h:1" || !q.Bool("b") || q.Int("n") != 7 || q.Duration("d") != 3*time.Second || q.Bool("absent") {
		t.Error("a parameter was misread")
	}
	if rest, err := q.Rest(); err != nil || rest.Get("left") != "1" || rest.Has("a") {
		t.Errorf("Rest returned %v, %v", rest, err)
	}
	q.Bool("bad")
	q.Duration("worse")
	q.Endpoint("odd")
	if !q.Has("twice") || q.Has("never") {
		t.Error("Has misreports a parameter")
	}
	q.Text("twice")
	err = q.Done()
	for _, want := range []string{`bad="maybe": must be true or false`, `worse="y": must be a duration`, "odd: must be a URL with http or https", "twice: must be set once", `the parameter "left" is unknown; known are a, e, b, n, d`} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want ErrInvalid with %s", err, want)
		}
	}
}

func TestStoreThatDoesNotAnswerIsClosed(t *testing.T) {
	fails := errors.New("no server")
	for _, want := range []error{nil, fails} {
		s, _ := newStore(t, base.Options{})
		got, err := base.Reached(t.Context(), s, s, func(ctx context.Context) error {
			if _, has := ctx.Deadline(); !has {
				t.Error("the call has no deadline")
			}
			return want
		})
		if closed := s.ConnState() == store.Closed; !errors.Is(err, want) || (got != nil) != (want == nil) || closed != (want != nil) {
			t.Errorf("got %v, %v, closed %v; want %v", got, err, closed, want)
		}
	}
}

func TestOpenChecksTheType(t *testing.T) {
	s, _ := newStore(t, base.Options{})
	fails := errors.New("no server")
	d := base.Driver("x://HOST", func(_ context.Context, u *url.URL) (*base.Store, error) {
		if u.Host == "down" {
			return nil, fails
		}
		return s, nil
	}, "x")
	if got, err := base.Open[*base.Store](t.Context(), "x://h", d); err != nil || got != s {
		t.Errorf("got %v, %v", got, err)
	}
	if opened, err := store.Open(t.Context(), "x://down", d); opened != nil || !errors.Is(err, fails) {
		t.Errorf("got %v, %v, want a nil interface", opened, err)
	}
	if got, err := base.Open[*base.Store](t.Context(), "x://down", d); got != nil || !errors.Is(err, fails) {
		t.Errorf("got %v, %v", got, err)
	}
}
