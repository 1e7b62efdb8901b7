// Package controlrecord changes a group's control record, and the record by
// which operators drain an instance.
//
// The parts of the record are independent: a writer that changes one keeps the
// others. Every change is a compare-and-swap, and is tried again until its
// outcome is known.
package controlrecord

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// Timeout bounds one attempt, so that an answer that is lost costs no more.
const Timeout = 2 * time.Second

// Pace is how soon a call to the store that failed is tried again: others
// change the record too, and are soon done.
//
//nolint:gochecknoglobals // a constant, but for its type
var Pace = backoff.Policy{Initial: 2 * time.Millisecond, Max: time.Second}

// WhyRule is the rule of ValidWhy, in words.
const WhyRule = "must be at most 512 bytes of UTF-8 without control characters"

// ValidWhy reports whether a record may contain why. Text that is not UTF-8
// could not be read back: encoding/json writes three bytes for each such byte.
// Candidates do not obey a control record whose reason is too long.
func ValidWhy(why string) bool {
	return len(why) <= record.MaxWhy && utf8.ValidString(why) && !strings.ContainsFunc(why, unicode.IsControl)
}

// Pause returns a change that pauses the group. A group that is paused already
// keeps its first pause.
func Pause(by, why string) func(*record.Control) {
	return func(c *record.Control) {
		if c.Paused == nil {
			c.Paused = &record.Pause{By: by, Reason: why}
		}
	}
}

// Resume is a change that ends a pause.
func Resume(c *record.Control) { c.Paused = nil }

// Change changes a group's control record, as Replace does. It may call change
// more than once, and change may find itself done.
//
// The record is written even if change finds nothing to do. The read may have
// come from a replica that lags, and only a write that the store accepts proves
// that the record is as change left it.
func Change(ctx context.Context, st store.Store, group string, change func(*record.Control)) error {
	return Replace(ctx, st, record.ControlKey(group), func(e store.Entry) (store.Write, error) {
		c := Read(e)
		change(&c)
		value, err := c.Encode()
		return store.Write{Value: value}, err
	})
}

// Drain makes the drain record of an instance, in the place of an earlier one.
func Drain(ctx context.Context, st store.Store, d record.Drain) error {
	return Replace(ctx, st, record.DrainKey(d.Instance), func(store.Entry) (store.Write, error) {
		value, err := d.Encode()
		return store.Write{Value: value}, err
	})
}

// Undrain removes the drain record of an instance.
func Undrain(ctx context.Context, st store.Store, instance string) error {
	return Replace(ctx, st, record.DrainKey(instance), func(store.Entry) (store.Write, error) {
		return store.Write{Tombstone: true}, nil
	})
}

// Replace writes what next makes of a register's content, by compare-and-swap.
// It reads and calls next again when another writer came first, and after an
// unknown outcome.
//
// An error matches store.ErrUnknown if the write may yet be applied, whatever
// the last attempt ended with.
func Replace(ctx context.Context, st store.Store, key string, next func(store.Entry) (store.Write, error)) error {
	doubt := false // one of our writes may still be on its way
	for attempt := 1; ; attempt++ {
		err := try(ctx, st, key, next)
		doubt = doubt || store.Classify(err) == store.Unknown
		switch store.Classify(err) {
		case store.OK:
			return nil // an earlier write that arrives now is refused
		case store.Permanent:
			return InDoubt(doubt, err)
		default:
		}
		if !backoff.Sleep(ctx, Pace.After(attempt)) {
			return InDoubt(doubt, fmt.Errorf("%w: %w", context.Cause(ctx), err))
		}
	}
}

func try(ctx context.Context, st store.Store, key string, next func(store.Entry) (store.Write, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	entry, err := st.Get(ctx, key)
	if err != nil {
		return err
	}
	w, err := next(entry)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	w.Key, w.Expected = key, entry.Revision
	_, err = st.CompareAndSwap(ctx, w)
	return err
}

// Read is record.ReadControl for writers that change the record. An unreadable
// record is replaced: candidates would not obey a change inside it.
func Read(entry store.Entry) record.Control {
	c, ok := record.ReadControl(entry)
	if !ok {
		return record.Control{}
	}
	return c
}

// Write writes a control record in the place of the revision that is expected.
func Write(ctx context.Context, st store.Store, key string, expected uint64, c record.Control) error {
	value, err := c.Encode()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	_, err = st.CompareAndSwap(ctx, store.Write{Key: key, Expected: expected, Value: value})
	return err
}

// InDoubt makes err match store.ErrUnknown if an earlier attempt may yet be
// applied.
func InDoubt(doubt bool, err error) error {
	if doubt && store.Classify(err) != store.Unknown {
		return fmt.Errorf("%w: an earlier attempt had no answer: %w", store.ErrUnknown, err)
	}
	return err
}
