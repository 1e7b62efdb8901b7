package histories

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-ff2cb582/leader/store"
)

// A Judge contains what a store promises beyond package store, and how long a
// verdict may take.
type Judge struct {
	// CurrentConflicts is set if a conflict shows that the register had another
	// revision at some time during the call.
	CurrentConflicts bool
	// Limit bounds the search for an order of each key's writes. Zero means a
	// minute.
	Limit time.Duration
}

// Verdict returns everything that a store which keeps its promises could not
// have answered, joined, or nil. A search that finds no order within Limit is
// an error, too.
func (j Judge) Verdict(ops []Op) error {
	keys := map[string][]Op{}
	for _, o := range ops {
		keys[o.Key] = append(keys[o.Key], o)
	}
	var faults []error
	for key, ops := range keys {
		faults = append(faults, j.judge(key, ops))
	}
	return errors.Join(faults...)
}

// A step is one write, as the model takes it.
type step struct {
	op      Op
	rev     uint64 // the write's revision; 0: nobody knows it
	applied bool   // it was seen
}

func (j Judge) judge(key string, ops []Op) error {
	steps, err := reckon(ops)
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	limit := j.Limit
	if limit == 0 {
		limit = time.Minute
	}
	history := operations(j.decisive(steps))
	if result := porcupine.CheckOperationsTimeout(register, history, limit); result != porcupine.Ok {
		return fmt.Errorf("key %s: no order explains its %d writes: %s", key, len(history), result)
	}
	return nil
}

// decisive leaves out the writes that change no verdict: all writes that nobody
// saw, but for one. A write that was applied and never seen is the last that
// its register took, since nobody can expect its revision. It may explain
// conflicts with the earlier state, and of several such writes the one that was
// called first explains what any of them does. The others may come after
// everything, without effect. With them in it, the search goes through all sets
// of them that may have come before, 2^n of n.
func (j Judge) decisive(steps []step) []step {
	last := uint64(0) // the register's revision after all that was seen
	for _, s := range steps {
		if s.applied {
			last = max(last, s.rev)
		}
	}
	var kept []step
	var unseen *step
	for _, s := range steps {
		switch {
		case s.applied, s.op.Outcome == store.Conflict && j.CurrentConflicts:
			kept = append(kept, s)
		case s.op.Outcome != store.Unknown || s.op.Expected != last:
		case unseen == nil || s.op.Call < unseen.op.Call:
			unseen = &s
		}
	}
	if unseen != nil && j.CurrentConflicts {
		kept = append(kept, *unseen)
	}
	return kept
}

// operations puts writes the way porcupine takes them.
func operations(steps []step) []porcupine.Operation {
	history := make([]porcupine.Operation, len(steps))
	for i, s := range steps {
		history[i] = porcupine.Operation{ClientId: s.op.Client, Input: s, Call: int64(s.op.Call), Return: int64(s.op.Return)}
	}
	return history
}

// register is a register with revisions. Its state is its revision; a write
// that was applied and never seen leaves it at an unknown revision, which
// nobody can expect.
var register = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		at, s := state.(uint64), input.(step) //nolint:errcheck,forcetypeassert // nothing else is put in
		fits := at == s.op.Expected
		switch {
		case s.op.Outcome == store.Conflict:
			return !fits, at
		case fits && s.rev == 0:
			return true, uint64(math.MaxUint64)
		case fits:
			return s.rev > at, s.rev
		default: // of unknown outcome: too late, and without effect
			return !s.applied, at
		}
	},
}

// reckon learns from the reads which writes were applied, when at the latest,
// and at which revision, and checks what follows from that without any order.
func reckon(ops []Op) ([]step, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	steps := map[string]*step{}
	writers := map[uint64]string{} // values by revision
	var order []*step
	for _, o := range ops {
		if o.Read {
			continue
		}
		s := &step{op: o, rev: o.Revision, applied: o.Outcome == store.OK}
		if o.Outcome == store.Unknown {
			s.op.Return = math.MaxInt64
		}
		if s.applied {
			if other, taken := writers[s.rev]; taken {
				fault("%v has the revision of %q", o, other)
			}
			writers[s.rev] = o.Value
		}
		steps[o.Value] = s
		order = append(order, s)
	}
	for _, o := range ops {
		if !o.Read || o.Revision == 0 {
			continue
		}
		s := steps[o.Value]
		if s == nil {
			fault("%v, which nobody wrote", o)
			continue
		}
		switch other, taken := writers[o.Revision]; {
		case s.op.Outcome != store.OK && s.op.Outcome != store.Unknown:
			fault("%v, and its write returned %v", o, s.op.Outcome)
		case taken && other != o.Value, s.rev != 0 && s.rev != o.Revision:
			fault("%v, where %q is, which is at %d", o, other, s.rev)
		case o.Return < s.op.Call:
			fault("%v, which was sent at %v", o, s.op.Call)
		}
		writers[o.Revision], s.rev, s.applied = o.Value, o.Revision, true
		s.op.Return = min(s.op.Return, o.Return)
	}
	all := make([]step, len(order))
	for i, s := range order {
		all[i] = *s
	}
	return all, errors.Join(faults...)
}
