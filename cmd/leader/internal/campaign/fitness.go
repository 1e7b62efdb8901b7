package campaign

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/seed-ff2cb582/leader"
)

// A fitness is the health of the candidate: the result of a check, and of a
// signal.
type fitness struct {
	check   leader.HealthChecker // nil: healthy
	unfit   atomic.Bool
	signals chan os.Signal
}

func newFitness(check leader.HealthChecker) *fitness {
	f := &fitness{check: check, signals: make(chan os.Signal, 1)}
	if sig := toggleSignal(); sig != nil {
		signal.Notify(f.signals, sig)
	}
	go func() {
		for range f.signals {
			f.unfit.Store(!f.unfit.Load())
		}
	}()
	return f
}

func (f *fitness) close() {
	signal.Stop(f.signals)
	close(f.signals)
}

// unfitness is the error of a candidate that waits until it is fit.
func (f *fitness) unfitness() error {
	if f.unfit.Load() {
		return errors.New("waiting: this host is not fit to lead: signal USR1")
	}
	return errors.New("waiting: this host is not fit to lead: the check failed")
}

// Check reports whether the candidate is fit to lead.
func (f *fitness) Check(ctx context.Context) bool {
	return !f.unfit.Load() && (f.check == nil || f.check.Check(ctx))
}
