package steer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

type command interface {
	Run(ctx context.Context, std app.Streams) error
}

// elsewhere runs a command on a store that does not report when it stored a
// record. The leader of the group reports has not renewed for an hour.
func elsewhere(t *testing.T, st *memstore.Store, of func(Flags) command) (said string, err error) {
	t.Helper()
	apptest.Lead(t, st, "reports", "gone", time.Hour)
	var both bytes.Buffer
	err = of(flags(st, 5*time.Second)).Run(t.Context(), app.Streams{Out: &both, Err: &both})
	return both.String(), err
}

func flags(st app.Registers, timeout time.Duration) Flags {
	return Flags{Target: apptest.Elsewhere(st, timeout), Format: output.Format{Output: "json"}, Group: "reports", By: "ann", Yes: true}
}

func TestSilentHolderIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, err := elsewhere(t, memstore.New(), func(f Flags) command { return StepDownCommand{Flags: f} })
		if !errors.Is(err, leader.ErrNoLeader) || !strings.Contains(err.Error(), `expired ("gone has not renewed since `) {
			t.Errorf("%s %v", said, err)
		}
	})
}

// Whether its holder leads is for vacate and forget to find out: they watch the
// record for a whole lease.
func TestRecordOfASilentHolderIsEndedInItsName(t *testing.T) {
	for name, of := range map[string]func(Flags) command{
		"vacate": func(f Flags) command { return VacateCommand{endFlags: ending(f)} },
		"forget": func(f Flags) command { return ForgetCommand{endFlags: ending(f)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			said, err := elsewhere(t, memstore.New(), of)
			if err != nil || !strings.Contains(said, `"gone" (term 1)`) || !strings.Contains(said, `"id": "gone"`) {
				t.Errorf("%s: %v: %s", name, err, said)
			}
			if took := time.Since(began); took > 22*time.Second {
				t.Errorf("%s watched for %v, longer than the lease", name, took)
			}
		})
	}
}

func ending(f Flags) endFlags {
	return endFlags{Target: f.Target, Format: f.Format, Group: f.Group, By: f.By, Yes: f.Yes}
}

// Pause keeps half of --timeout for the request itself.
func TestASilentHolderIsWatchedForHalfOfTheTimeBeforeAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		paused := make(chan bool, 1)
		time.AfterFunc(2600*time.Millisecond, func() {
			e, err := st.Get(t.Context(), inspect.ControlKey("reports"))
			paused <- err == nil && e.Revision > 0
		})
		said, err := elsewhere(t, st, func(f Flags) command { return PauseCommand{Flags: f} })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(said, "Nobody leads it now") || !<-paused {
			t.Errorf("%v: %s", err, said)
		}
	})
}
