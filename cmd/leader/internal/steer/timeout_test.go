package steer

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// slow is a store each of whose calls takes a while.
type slow struct {
	*memstore.Store

	takes time.Duration
}

func (s slow) wait(ctx context.Context) error {
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return store.ErrTransient
	}
}

func (s slow) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := s.wait(ctx); err != nil {
		return store.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s slow) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.Store.CompareAndSwap(ctx, w)
}

func TestTimeoutBoundsTheWholeCommand(t *testing.T) {
	const timeout = 5 * time.Second
	for name, of := range map[string]func(Flags) command{
		"step-down":            func(f Flags) command { return StepDownCommand{Flags: f} },
		"step-down --withdraw": func(f Flags) command { return StepDownCommand{Flags: f, Withdraw: true} },
		"step-down --no-wait":  func(f Flags) command { f.NoWait = true; return StepDownCommand{Flags: f} },
		"transfer":             func(f Flags) command { return TransferCommand{Flags: f, To: "b"} },
		"pause":                func(f Flags) command { return PauseCommand{Flags: f} },
		"resume":               func(f Flags) command { return ResumeCommand{Flags: f} },
		"vacate --force":       func(f Flags) command { return VacateCommand{endFlags: ending(f), Force: true} },
	} {
		for _, takes := range []time.Duration{time.Hour, 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				apptest.Lead(t, st, "reports", "a", 0)
				st.Put("_ctl.reports", []byte(`{"op":"step-down","term":1,"by":"bob"}`))
				began := time.Now()
				f := flags(slow{st, takes}, timeout)
				err := of(f).Run(t.Context(), app.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
				if took := time.Since(began); took > timeout || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, of calls that take %v, took %v: %v", name, takes, took, err)
				}
			})
		}
	}
}

// A person may take any time to answer.
func TestQuestionDoesNotCountForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := led(t, direct)
		d.std.In = answers(func() string { time.Sleep(time.Hour); return "y\n" })
		asked := time.Now()
		d.flags.NoWait = true
		if err := d.pause(t.Context()); err != nil {
			t.Errorf("after %v: %v", time.Since(asked), err)
		}
	})
}
