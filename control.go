package leader

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

func (e *election) Pause(ctx context.Context, why string) error {
	if err := checkWhy(why); err != nil {
		return err
	}
	return changeControl(ctx, e.store, e.cfg.Group, pauseBy(e.cfg.InstanceID, why))
}

func (e *election) Resume(ctx context.Context) error {
	return changeControl(ctx, e.store, e.cfg.Group, resume)
}

// checkWhy refuses what could not be read back: encoding/json writes three bytes for each that is no UTF-8, and a
// control record with a reason that is too long is one that nobody obeys.
func checkWhy(why string) error {
	if validWhy(why) {
		return nil
	}
	return &ConfigError{Field: "why", Value: fmt.Sprintf("(%d bytes)", len(why)), Rule: whyRule}
}

const whyRule = "must be at most 512 bytes of UTF-8 without control characters"

func validWhy(why string) bool {
	return len(why) <= record.MaxWhy && utf8.ValidString(why) && !strings.ContainsFunc(why, unicode.IsControl)
}

func pauseBy(by, why string) func(*record.Control) {
	return func(c *record.Control) {
		if c.Paused == nil {
			c.Paused = &record.Pause{By: by, Reason: why}
		}
	}
}

func resume(c *record.Control) { c.Paused = nil }

// controlRest is the rest before a control record that changed meanwhile is changed again, controlMaxRest
// the longest that it grows to.
const (
	controlRest    = 2 * time.Millisecond
	controlMaxRest = time.Second
)

// changeControl changes a group's control record, whose parts are independent of each other, by compare-and-swap. change
// is called again when another's change came first, and after an unknown outcome, when it may find its own change done.
//
// The record is written even where change finds nothing to do: the read may have come from a replica that lags, and only
// the write that the store accepts proves that the record is as change left it.
//
// An error matches store.ErrUnknown if the change may yet be applied, whatever the last attempt ended with.
func changeControl(ctx context.Context, st store.Store, group string, change func(*record.Control)) error {
	key := record.ControlKey(group)
	doubt := false // a write of ours may still be on its way
	for rest := controlRest; ; rest = min(2*rest, controlMaxRest) {
		err := tryControl(ctx, st, key, change)
		doubt = doubt || store.Classify(err) == store.Unknown
		switch store.Classify(err) {
		case store.OK:
			return nil // an earlier write that arrives now is refused
		case store.Permanent:
			return inDoubt(doubt, err)
		default:
		}
		if !sleep(ctx, rest) {
			return inDoubt(doubt, fmt.Errorf("%w: %w", context.Cause(ctx), err))
		}
	}
}

// controlTimeout bounds one attempt, so that an answer that is lost costs no more.
const controlTimeout = 2 * time.Second

func tryControl(ctx context.Context, st store.Store, key string, change func(*record.Control)) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	entry, err := st.Get(ctx, key)
	if err != nil {
		return err
	}
	c := readControl(entry)
	change(&c)
	return writeControl(ctx, st, key, entry.Revision, c)
}

// readControl is record.ReadControl for those who change the record: what nobody obeys is to be replaced, and not to be
// written once more around the change, which nobody would then obey either.
func readControl(entry store.Entry) record.Control {
	c, ok := record.ReadControl(entry)
	if !ok {
		return record.Control{}
	}
	return c
}

func inDoubt(doubt bool, err error) error {
	if doubt && store.Classify(err) != store.Unknown {
		return fmt.Errorf("%w: an earlier attempt had no answer: %w", store.ErrUnknown, err)
	}
	return err
}

func writeControl(ctx context.Context, st store.Store, key string, expected uint64, c record.Control) error {
	value, err := c.Encode()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	_, err = st.CompareAndSwap(ctx, store.Write{Key: key, Expected: expected, Value: value})
	return err
}
