package leader

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// DrainInterval is how often an instance reads its order where each watched key
// costs requests. Elsewhere it hears of the order.
const DrainInterval = engine.DrainEvery

// Drain drains an instance, for maintenance: each election of the instance, in
// every group of the bucket, hands over if it leads, as by OpStepDown, and
// campaigns for nothing, until Undrain or until its process has been replaced by
// another. Elections of groups that are made later obey, too. A group that has
// no other candidate is then without a leader.
//
// Drain returns when the order is stored. The instance obeys as soon as it hears
// of it, which takes up to [DrainInterval] where each watched key costs requests:
// on a store that is polled, and in a bucket that does not republish.
//
// The first process of the instance that finds the order obeys it. So an order
// for an instance that does not run is obeyed by its next process, and lasts
// until the process after that. An order takes the place of an earlier one.
//
// Candidates of earlier versions do not obey, nor do those that may not read the
// instance's record: see docs/operate/permissions.md. A candidate that may not
// write the record obeys also after a restart, until Undrain.
//
// why is for people: at most 512 bytes of UTF-8 without control characters. The
// errors are the errors of File.
func (c *Control) Drain(ctx context.Context, instance, why string) error {
	v := &validator{}
	validateInstance(v, instance)
	v.check(controlrecord.ValidWhy(why), "why", tooLong(why), controlrecord.WhyRule)
	if err := v.err(); err != nil {
		return err
	}
	return controlrecord.Drain(ctx, c.st, record.Drain{
		Instance: instance, By: c.by, Reason: why, At: record.MomentOf(time.Now()),
	})
}

// Undrain ends a drain: the instance campaigns again. It is not an error if the
// instance is not drained.
func (c *Control) Undrain(ctx context.Context, instance string) error {
	v := &validator{}
	validateInstance(v, instance)
	if err := v.err(); err != nil {
		return err
	}
	return controlrecord.Undrain(ctx, c.st, instance)
}

// A DrainState is the order by which an instance is drained, if there is one.
type DrainState struct {
	// Instance is the InstanceID.
	Instance string
	// Drained reports that there is an order. The other fields are zero
	// otherwise.
	Drained bool
	// By is which operator gave it, for what reason, and when, by that
	// operator's wall clock.
	By, Why string
	At      time.Time
	// Taken reports that a process of the instance obeys, and that the next one
	// will not. A process that may not write the record obeys without that.
	Taken bool
}

// DrainState returns whether an instance is drained, by one read, which may come
// from a replica that lags. A record that candidates cannot read counts as none.
func (c *Control) DrainState(ctx context.Context, instance string) (DrainState, error) {
	s := DrainState{Instance: instance}
	v := &validator{}
	validateInstance(v, instance)
	if err := v.err(); err != nil {
		return s, err
	}
	entry, err := c.get(ctx, record.DrainKey(instance))
	if err != nil {
		return s, err
	}
	if d, drained, _ := record.ReadDrain(entry); drained {
		s.Drained, s.By, s.Why, s.At, s.Taken = true, d.By, d.Reason, d.At.Time(), d.Taken != ""
	}
	return s, nil
}

func validateInstance(v *validator, id string) {
	v.check(id != "", "instance", id, "is required")
	v.check(validID(id), "instance", id, "must be at most 256 bytes of printable UTF-8")
}
