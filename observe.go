package leader

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/observation"
	"github.com/seed-ff2cb582/leader/store"
)

// ObserveWithStore yields who leads without taking part: the current state of
// each group first, then each change, until ctx is done. It never writes.
//
// The pattern is the name of a group, or has the wildcards of NATS subjects in
// it: * matches any one of the parts that dots separate, > at the end one or
// more. With wildcards, groups are yielded as they appear; control keys do not
// match. Without wildcards, a group that the store does not contain is yielded
// once with ReasonAbsent. Wildcards need a store that is a
// [store.PatternWatcher], as the stores for NATS and in memory are.
//
// A leader that falls silent is yielded as gone when its lease has run out as
// seen from here (its TTL plus its ClockDrift, DefaultClockDrift if its record
// states none, after its latest renewal arrived). Renewals are not yielded. A
// slow reader skips states, but hears of the last one of every group.
//
// An error is yielded when the store cannot be watched. If the reader goes on
// after it, that is tried again, unless the pattern is invalid
// (ErrInvalidConfig). When the store's connection is permanently closed,
// ErrConnectionClosed is yielded last. A store without a watch is polled. A
// read that fails is passed over, but a permanent failure (store.ErrPermanent)
// is yielded as an error and repeated. An older state than the last is passed
// over, too, until three reads in a row show it.
func ObserveWithStore(ctx context.Context, st store.Store, pattern string) iter.Seq2[LeaderInfo, error] {
	return func(yield func(LeaderInfo, error) bool) {
		o, more := observation.New(pattern), true
		tell := func(info LeaderInfo, err error) bool {
			more = more && yield(info, err)
			return more
		}
		o.Told = func(info leadership.Info) bool { return tell(infoOf(info), nil) }
		o.Failed = func(err error) bool { return tell(LeaderInfo{Group: o.Named()}, err) }
		if err := o.Follow(ctx, st); err != nil {
			o.Failed(err)
		}
	}
}

// An Observer is the set of functions that [ObserveFunc] calls. They are called
// one at a time, on the goroutine of ObserveFunc; while one runs, states may be
// skipped, but never the last one of a group. Any may be nil.
type Observer struct {
	// Leader receives who leads a group: the current state of each group first,
	// then each change.
	Leader func(LeaderInfo)
	// Renewed receives each renewal that arrived: the leader is the last one
	// that Leader received, its Until is later.
	Renewed func(LeaderInfo)
	// Present is called when Leader has received the current state of every
	// matching group: a group that is not known by then does not exist. It is
	// called again after interruptions.
	Present func()
	// Failed receives the error if the groups cannot be watched; that is tried
	// again, as is a read that fails permanently in a store without a watch. It
	// is also called if the current state cannot be read because a permission
	// is missing: then Present is not called, and Leader hears of each group
	// with its next renewal. Without Failed, ObserveFunc returns the first
	// error of any kind.
	Failed func(error)
}

// ObserveFuncWithStore is [ObserveWithStore] with functions in place of an
// iteration. It returns nil when ctx is done, ErrConnectionClosed when the
// store's connection is permanently closed, or an error if the pattern is
// invalid or if there is no Observer.Failed to receive it.
func ObserveFuncWithStore(ctx context.Context, st store.Store, pattern string, observer Observer) error {
	var failure error
	o := observation.New(pattern)
	o.Told = goingOn(observer.Leader)
	o.Renewed = goingOn(observer.Renewed)
	o.Failed = func(err error) bool {
		if observer.Failed == nil {
			failure = err
			return false
		}
		observer.Failed(err)
		return true
	}
	o.Present = func(err error) bool {
		switch {
		case err != nil:
			return o.Failed(err)
		case observer.Present != nil:
			observer.Present()
		}
		return true
	}
	if err := o.Check(st); err != nil {
		return err // no trial would help
	}
	if err := o.Follow(ctx, st); err != nil {
		return err
	}
	return failure
}

func goingOn(f func(LeaderInfo)) func(leadership.Info) bool {
	return func(info leadership.Info) bool {
		if f != nil {
			f(infoOf(info))
		}
		return true
	}
}

// SnapshotWithStore returns who leads each group that matches the pattern (see
// [ObserveWithStore]) and that the store contains, vacancies included, in the
// order of the groups' names. It fails if the store cannot be watched, if the
// user may not read the current state, or when ctx is done first.
//
// A record does not show its age: the record of a leader that has just died
// reads like any other, and Until is counted from now. To know whether a leader
// lives, observe it for that long.
func SnapshotWithStore(ctx context.Context, st store.Store, pattern string) ([]LeaderInfo, error) {
	infos := make(map[string]LeaderInfo)
	var failure error
	whole := false
	o := observation.New(pattern)
	o.Told = func(info leadership.Info) bool { infos[info.Group] = infoOf(info); return true }
	o.Renewed = o.Told
	o.Failed = func(err error) bool { failure = err; return false }
	o.Present = func(err error) bool { failure, whole = err, err == nil; return false }
	ended := o.Follow(ctx, st)
	if !whole {
		failure = cmp.Or(failure, ended)
		if failure == nil {
			failure = fmt.Errorf("%w: the current state of %q did not arrive: %w", store.ErrTransient, pattern, context.Cause(ctx))
		}
		return nil, failure
	}
	all := make([]LeaderInfo, 0, len(infos))
	for _, info := range infos {
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b LeaderInfo) int { return strings.Compare(a.Group, b.Group) })
	return all, nil
}
