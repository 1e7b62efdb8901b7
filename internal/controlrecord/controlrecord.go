// Package controlrecord changes a group's control record.
//
// The parts of the record are independent: whoever changes one keeps the
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

// ValidWhy reports whether why may stand in a record. What is no UTF-8 could
// not be read back: encoding/json writes three bytes for each such byte. Nobody
// obeys a control record whose reason is too long.
func ValidWhy(why string) bool {
	return len(why) <= record.MaxWhy && utf8.ValidString(why) && !strings.ContainsFunc(why, unicode.IsControl)
}

// Pause returns a change that pauses the group. A group that is paused already
// stays so in the name of whoever paused it first.
func Pause(by, why string) func(*record.Control) {
	return func(c *record.Control) {
		if c.Paused == nil {
			c.Paused = &record.Pause{By: by, Reason: why}
		}
	}
}

// Resume is a change that ends a pause.
func Resume(c *record.Control) { c.Paused = nil }

// Change changes a group's control record. It calls change again when another
// writer came first, and after an unknown outcome, when change may find itself
// done.
//
// The record is written even if change finds nothing to do. The read may have
// come from a replica that lags, and only a write that the store accepts proves
// that the record is as change left it.
//
// An error matches store.ErrUnknown if the change may yet be applied, whatever
// the last attempt ended with.
func Change(ctx context.Context, st store.Store, group string, change func(*record.Control)) error {
	key := record.ControlKey(group)
	doubt := false // a write of ours may still be on its way
	for attempt := 1; ; attempt++ {
		err := try(ctx, st, key, change)
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

func try(ctx context.Context, st store.Store, key string, change func(*record.Control)) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	entry, err := st.Get(ctx, key)
	if err != nil {
		return err
	}
	c := Read(entry)
	change(&c)
	return Write(ctx, st, key, entry.Revision, c)
}

// Read is record.ReadControl for whoever changes the record. A record that
// nobody can read is replaced: nobody would obey a change inside it.
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
