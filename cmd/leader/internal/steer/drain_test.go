package steer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func stand(t *testing.T, st store.Store, group, id string) {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func TestDrainNamesTheGroupsThatNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		stand(t, st, "one", "a")
		stand(t, st, "two", "a")
		stand(t, st, "two", "b")
		f := flags(st, 15*time.Second)
		var out, errs bytes.Buffer
		err := DrainCommand{drainFlags: drainFlags{Target: f.Target, Format: f.Format, By: f.By, Yes: true, Instance: "a"}}.
			Run(t.Context(), app.Streams{Out: &out, Err: &errs})
		var r DrainResult
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err, leader.ErrNoLeader) || !strings.HasSuffix(err.Error(), "nobody else leads: one; no other candidate took over within 15s (--timeout)") {
			t.Errorf("%v", err)
		}
		if r.Outcome != "no-leader" || len(r.Groups) != 2 || r.Groups[0].Leader != "" || r.Groups[1].Leader != "b" {
			t.Errorf("%+v", r)
		}
		if said := errs.String(); !strings.Contains(said, `leads group "two"; 1 left.`) {
			t.Errorf("%q", said)
		}
	})
}

// A mistyped name looks like an instance that leads nothing.
func TestDrainStatesThatNoProcessHasTakenTheOrder(t *testing.T) {
	for id, untaken := range map[string]bool{"follower": false, "typo": true} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			stand(t, st, "one", "leader")
			stand(t, st, "one", "follower")
			f := flags(st, 15*time.Second)
			var out, errs bytes.Buffer
			if err := (DrainCommand{drainFlags: drainFlags{Target: f.Target, Format: f.Format, By: f.By, Yes: true, Instance: id}}).
				Run(t.Context(), app.Streams{Out: &out, Err: &errs}); err != nil {
				t.Fatal(err)
			}
			if said := errs.String(); strings.Contains(said, "has taken the order yet; leader undrain") != untaken {
				t.Errorf("%s: %q", id, said)
			}
		})
	}
}

// A polled store reports no changes.
type polled struct{ registers store.Store }

func (p polled) Read(ctx context.Context, keys []string) (all []store.Entry, err error) {
	for _, key := range keys {
		e, err := p.registers.Get(ctx, key)
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (p polled) List(ctx context.Context, _ string) ([]store.Entry, error) {
	return p.Read(ctx, []string{"one"})
}

func (p polled) Swap(ctx context.Context, w store.Write) (uint64, error) {
	return p.registers.CompareAndSwap(ctx, w)
}

// kept is a store that outlives the command.
type kept struct{ *base.Store }

func (kept) Close() error { return nil }

// On such a store an instance may read the order later than --timeout.
func TestDrainWaitsUntilTheInstanceHasReadTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := base.New(polled{memstore.New()}, base.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		stand(t, st, "one", "a")
		stand(t, st, "one", "b")
		f := flags(st, 5*time.Second)
		f.Kit.Drivers[0].Open = func(context.Context, *url.URL) (store.Opened, error) { return kept{st}, nil }
		var out, errs bytes.Buffer
		if err := (DrainCommand{drainFlags: drainFlags{Target: f.Target, Format: f.Format, By: f.By, Yes: true, Instance: "a"}}).
			Run(t.Context(), app.Streams{Out: &out, Err: &errs}); err != nil {
			t.Errorf("%v: %s", err, out.String())
		}
		if said := errs.String(); !strings.Contains(said, "every 30s") {
			t.Errorf("%q", said)
		}
	})
}

// A signal is no answer to the question who leads.
func TestInterruptedDrainIsBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		stand(t, st, "one", "a")
		f := flags(st, 15*time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(app.SignalError{Signal: syscall.SIGINT}) })
		var out, errs bytes.Buffer
		err := DrainCommand{drainFlags: drainFlags{Target: f.Target, Format: f.Format, By: f.By, Yes: true, Instance: "a"}}.
			Run(ctx, app.Streams{Out: &out, Err: &errs})
		if app.ExitCode(err) != app.ExitFailure || !strings.Contains(err.Error(), "nobody else leads: one") || !strings.Contains(out.String(), `"broken-off"`) {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}
