package steer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// led returns a desk for a group that is led, over a store through which st is
// reached, and the state of the group.
func led(t *testing.T, through func(store.Store) store.Store) (*desk, leader.ControlState) {
	t.Helper()
	st := memstore.New()
	st.Put("reports", []byte(`{"id":"a","token":"t","ttl":60000,"term":1,"renewal":1}`))
	control, err := leader.NewControlWithStore(through(st), "ann")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	state, err := control.State(t.Context(), "reports")
	if err != nil {
		t.Fatal(err)
	}
	return &desk{
		flags: Flags{Target: app.Target{Timeout: time.Minute}, Format: output.Format{Output: "json"}, Group: "reports"},
		std:   app.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, session: &app.Session{}, control: control, until: time.Now().Add(time.Minute),
	}, state
}

func direct(st store.Store) store.Store { return st }

// Every user who may write a group's records chooses these words.
func TestNothingThatOthersWroteSteersTheTerminal(t *testing.T) {
	d, _ := led(t, func(st store.Store) store.Store {
		m := st.(*memstore.Store) //nolint:errcheck,forcetypeassert // it is led's store
		m.Put(inspect.ControlKey("reports"), []byte(`{"op":"\u001b[2J","term":1,"by":"\u009b2J","reason":"\u001b[1m"}`))
		return st
	})
	d.flags.Yes = true
	if err := d.withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	vacant, _ := led(t, func(st store.Store) store.Store {
		m := st.(*memstore.Store) //nolint:errcheck,forcetypeassert // as above
		if _, err := m.CompareAndSwap(t.Context(), store.Write{Key: "reports", Expected: 1, Tombstone: true, Value: []byte(`{"reason":"\u001b[2J"}`)}); err != nil {
			t.Fatal(err)
		}
		return st
	})
	if err := vacant.vacate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, said := range []fmt.Stringer{d.std.Err.(*bytes.Buffer), vacant.std.Err.(*bytes.Buffer)} { //nolint:errcheck // the tests set them
		if text := said.String(); text == "" || strings.ContainsAny(text, "\x1b\u009b") {
			t.Errorf("%q", text)
		}
	}
}

// The question whether to take a request back may wait for long. Another's
// request that has come meanwhile is not the one that was shown.
func TestAnotherRequestThanTheOneThatWasShownIsNotTakenBack(t *testing.T) {
	d, _ := led(t, direct)
	file := func(r leader.Request) {
		r.Group, r.Term = "reports", 1
		if _, err := d.control.File(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	file(leader.Request{Op: leader.OpStepDown, Why: "first"})
	for _, c := range []struct {
		meanwhile func()
		err       bool
		left      string
	}{
		{func() { file(leader.Request{Op: leader.OpTransfer, Successor: "c", Why: "second"}) }, true, "second"},
		{func() {}, false, ""},
	} {
		d.std.In = answers(func() string { c.meanwhile(); return "y\n" })
		if err := d.withdraw(t.Context()); (err != nil) != c.err {
			t.Errorf("left %q: %v", c.left, err)
		}
		if s, err := d.control.State(t.Context(), "reports"); err != nil || s.Pending.Why != c.left {
			t.Errorf("%v, %+v is pending, not %q", err, s.Pending, c.left)
		}
	}
}

// answers are read when they are asked for.
type answers func() string

func (a answers) Read(p []byte) (int, error) { return copy(p, a()), nil }

// A user who interrupts the command also learns how to take the request back.
func TestASignalLeavesTheWayToTakeARequestBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, state := led(t, direct)
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(app.SignalError{Signal: syscall.SIGINT}) })
		err := d.ask(ctx, leader.Request{Op: leader.OpPause}, state)
		if !strings.Contains(fmt.Sprint(err), "leader resume reports takes the pause back") {
			t.Error(err)
		}
	})
}

// A closing store takes a request, and lets nobody read afterwards, as where a
// permission is taken away. Without a watch it is read all the time.
type closing struct {
	store.Store

	closed atomic.Bool
}

func (c *closing) Get(ctx context.Context, key string) (store.Entry, error) {
	if c.closed.Load() {
		return store.Entry{}, fmt.Errorf("%w: the permission is missing", store.ErrPermanent)
	}
	return c.Store.Get(ctx, key)
}

func (c *closing) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	revision, err := c.Store.CompareAndSwap(ctx, w)
	if err == nil && w.Key == inspect.ControlKey("reports") {
		c.closed.Store(true)
	}
	return revision, err
}

// Of a request that is stored there is a report, whatever comes of it, and the
// way to take it back.
func TestARequestWhoseEffectCannotBeSeenIsReported(t *testing.T) {
	for op, undone := range map[leader.Operation]string{leader.OpStepDown: "--withdraw withdraws it", leader.OpPause: "leader resume reports takes the pause back"} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, state := led(t, func(st store.Store) store.Store { return &closing{Store: st} })
				var out bytes.Buffer
				d.std.Out = &out
				r := leader.Request{Op: op}
				if op == leader.OpStepDown {
					r.Term = state.Leader.Term
				}
				err := d.ask(t.Context(), r, state)
				if !errors.Is(err, store.ErrPermanent) || !strings.Contains(fmt.Sprint(err), undone) {
					t.Errorf("%v", err)
				}
				var got Result
				if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Operation != op || got.Outcome != "broken-off" || got.From == nil || got.From.ID != "a" {
					t.Errorf("%v: %+v", err, got)
				}
			})
		})
	}
}

func TestUnstoredRequestIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &closing{Store: memstore.New()}
		st.closed.Store(true)
		control, err := leader.NewControlWithStore(st, "ann")
		if err != nil {
			t.Fatal(err)
		}
		defer control.Close()
		var out, errs bytes.Buffer
		d := &desk{flags: Flags{Target: app.Target{Timeout: time.Minute}, Group: "reports"}, std: app.Streams{Out: &out, Err: &errs}, session: &app.Session{}, control: control, until: time.Now().Add(time.Minute)}
		if err := d.ask(t.Context(), leader.Request{Op: leader.OpPause}, leader.ControlState{}); !errors.Is(err, store.ErrPermanent) || out.Len() > 0 {
			t.Errorf("%v; reported: %s", err, &out)
		}
	})
}
