package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/controlrecord"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// Errors of Vacate and Forget, for errors.Is. See also the errors of a Control.
var (
	// ErrLed: somebody leads the group, or may do so as far as can be known.
	ErrLed = errors.New("leader: the group may be led")
	// ErrPaused: the group is paused, and a pause is not to be forgotten.
	ErrPaused = errors.New("leader: the group is paused")
)

// A VacateRequest asks for the end of a record whose holder is gone.
type VacateRequest struct {
	// Group is the group. Required.
	Group string
	// Revision is the revision of the record that the caller has seen, as in
	// ControlState.Revision: a later one is left alone. 0 means the current
	// one.
	Revision uint64
	// Force ends the record without any proof that its holder is gone. The
	// caller must know that: if the holder acts, it does so beside the next
	// leader until it hears of the vacancy, or until its lease runs out.
	Force bool
	// By names the requester. Default: the name that the Control was made with.
	By string
	// Why is for people: at most 512 bytes of UTF-8 without control characters.
	Why string
}

func (r VacateRequest) validate() error {
	v := &validator{}
	ElectionConfig{Group: r.Group, InstanceID: "-"}.validateNames(v)
	v.check(validID(r.By), "By", r.By, "must be at most 256 bytes of printable UTF-8")
	v.check(controlrecord.ValidWhy(r.Why), "Why", tooLong(r.Why), controlrecord.WhyRule)
	return v.err()
}

// Vacate ends the record of a holder that is gone, so that the candidates
// claim it at once, those that have watched it as well as new ones. It is for
// records that nobody else will end soon: of another program, of a host that is
// known to be dead, of a group without candidates. A leader that answers is
// asked by StepDown.
//
// Without Force it first watches the record for as long as its lease lasts, and
// refuses with ErrLed if the record changes, or if it does not contain the
// length of its lease: deleted records, and records of other programs. So
// nothing is ended that somebody acts by. In any case it is a compare-and-swap
// on the revision that was seen, and a leader's renewal in the meantime is left
// alone.
//
// It returns the vacancy. Where nobody holds the record, it returns why, and
// writes nothing. Other errors are ErrInvalidConfig, ErrNoLeader (the store
// does not contain the group), the cause of a ctx that is done, and the errors
// of the store: an error that matches store.ErrUnknown means that the record
// may have been ended. Vacate needs the rights of a candidate to write the
// group's key.
func (c *Control) Vacate(ctx context.Context, r VacateRequest) (LeaderInfo, error) {
	return c.end(ctx, r, ReasonVacated)
}

// Forget marks a group that is permanently gone, so that lists leave it out:
// its vacancy has ReasonForgotten from then on. Nothing is deleted, and if the
// group returns, its terms go on growing; its first candidate claims the record
// at once.
//
// A held record is watched for as long as its lease lasts, and ended then, as
// by Vacate without Force, with the same errors. A paused group is refused with
// ErrPaused, also if it is paused while its record is watched, since a
// returning group would wait for the end of a forgotten pause. A request in the
// control record is left there: it names a term that is over.
func (c *Control) Forget(ctx context.Context, group, why string) (LeaderInfo, error) {
	r := VacateRequest{Group: group, Why: why}
	if err := r.validate(); err != nil {
		return LeaderInfo{Group: group}, err
	}
	if err := c.unpaused(ctx, group); err != nil {
		return LeaderInfo{Group: group}, err
	}
	return c.end(ctx, r, ReasonForgotten)
}

// unpaused returns ErrPaused if the group is paused.
func (c *Control) unpaused(ctx context.Context, group string) error {
	entry, err := c.get(ctx, record.ControlKey(group))
	if err != nil {
		return err
	}
	if p := controlrecord.Read(entry).Paused; p != nil {
		return fmt.Errorf("%w: group %q, by %q", ErrPaused, group, p.By)
	}
	return nil
}

// end replaces a group's record by a vacancy with that reason.
func (c *Control) end(ctx context.Context, r VacateRequest, reason Reason) (LeaderInfo, error) {
	if r.By == "" {
		r.By = c.by
	}
	if err := r.validate(); err != nil {
		return LeaderInfo{Group: r.Group}, err
	}
	entry, err := c.get(ctx, r.Group)
	if err != nil {
		return LeaderInfo{Group: r.Group}, err
	}
	for {
		info, err := c.endOf(ctx, r, reason, entry)
		if r.Revision != 0 || !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknown) {
			return info, err
		}
		// The record was written meanwhile, or a replica that lags answered.
		// Its holder may have released it.
		if entry, err = c.released(ctx, r.Group, entry.Revision, err); err != nil {
			return info, err
		}
	}
}

// released returns the vacancy that has taken the place of a group's record, of
// a revision that the store has refused. Otherwise it returns the refusal. It
// reads for a while, since the replica that answers may lag behind the one that
// refused.
func (c *Control) released(ctx context.Context, group string, revision uint64, refusal error) (store.Entry, error) {
	reading, cancel := context.WithTimeout(ctx, controlrecord.Timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		entry, err := c.get(reading, group)
		if err != nil {
			return entry, refusal
		}
		seen, _ := record.Read(entry)
		switch newer := entry.Revision > revision; {
		case newer && seen.Kind == machine.Vacant:
			return entry, nil
		case newer, !backoff.Sleep(reading, controlrecord.Pace.After(attempt)):
			return entry, refusal
		}
	}
}

// endOf replaces the record in an entry.
func (c *Control) endOf(ctx context.Context, r VacateRequest, reason Reason, entry store.Entry) (LeaderInfo, error) {
	held, seen := leadership.Of(r.Group, entry, time.Now())
	info := infoOf(held)
	switch {
	case seen.Kind == machine.Absent:
		return info, fmt.Errorf("%w: the store knows nothing of group %q", ErrNoLeader, r.Group)
	case r.Revision != 0 && entry.Revision != r.Revision:
		return info, changedMeanwhile(r.Group, info.ID)
	case seen.Kind == machine.Vacant && (reason == ReasonVacated || info.Reason == reason):
		return info, nil
	case seen.Kind != machine.Vacant && !r.Force:
		if err := c.outlast(ctx, r.Group, entry); err != nil {
			return info, err
		}
		if reason != ReasonForgotten {
			break
		}
		// Somebody may have paused the group while its lease was watched.
		if err := c.unpaused(ctx, r.Group); err != nil {
			return info, err
		}
	}
	left := vacancyOf(entry, r, reason)
	if err := c.writeVacancy(ctx, r.Group, entry.Revision, left); err != nil {
		return info, err
	}
	return LeaderInfo{
		Group: r.Group, Term: left.Term, Transitions: uint64(left.Transitions), Correlation: leadership.Correlation(left.Token),
		Acquired: left.Acquired.Time(), Renewed: left.Renewed.Time(),
		Reason: reason, By: r.By, Why: r.Why,
	}, nil
}

// changedMeanwhile is the error where the record is another than was seen. by is
// its holder, empty for none or if that is not known.
func changedMeanwhile(group, by string) error {
	if by != "" {
		by = fmt.Sprintf(", by %q", by)
	}
	return fmt.Errorf("%w: %w: the record of group %q was written meanwhile%s", ErrLed, store.ErrConflict, group, by)
}

// vacancyOf is the vacancy that takes an entry's place. It keeps what
// candidates decide by: the term, and the standings.
func vacancyOf(entry store.Entry, r VacateRequest, reason Reason) record.Record {
	seen, old := record.Read(entry)
	return record.Record{
		Token: old.Token, Term: seen.Term(), Standings: old.Standings, Transitions: old.Transitions,
		Acquired: old.Acquired, Renewed: record.MomentOf(time.Now()),
		Reason: string(reason), By: r.By, Why: r.Why,
	}
}

// outlast returns nil when the lease of a record, which has just arrived, has
// run out without a renewal. Its claim is due then, and so is a vacancy.
func (c *Control) outlast(ctx context.Context, group string, entry store.Entry) error {
	arrived := time.Now()
	lease := leadership.Lease(record.Read(entry))
	if lease == 0 {
		return fmt.Errorf("%w: group %q: its record does not state how long its writer may act by it", ErrLed, group)
	}
	look, err := c.lookOut(ctx, group)
	if err != nil {
		return err
	}
	defer look.stop()
	for s := look.first; ; {
		switch {
		case s.rev > entry.Revision && s.info.ID != "":
			return fmt.Errorf("%w: %q renews the record of group %q", ErrLed, s.info.ID, group)
		case s.rev > entry.Revision:
			return changedMeanwhile(group, "")
		case time.Since(arrived) >= lease:
			return nil
		}
		if s, err = look.next(ctx, arrived.Add(lease)); err != nil {
			return fmt.Errorf("leader: the record of group %q was not watched to the end of its lease: %w", group, err)
		}
	}
}

// writeVacancy writes a vacancy in the place of the record of that revision.
// Each attempt has the same expectation and content, so that it is applied once
// at most.
func (c *Control) writeVacancy(ctx context.Context, group string, expected uint64, left record.Record) error {
	value, err := left.Encode()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	w := store.Write{Key: group, Expected: expected, Value: value, Tombstone: true}
	doubt := false // one of our writes may have been applied, or be on its way
	for attempt := 1; ; attempt++ {
		err := c.tryWrite(ctx, w)
		switch store.Classify(err) {
		case store.OK:
			return nil
		case store.Conflict:
			return c.refused(ctx, w, doubt)
		case store.Permanent:
			return controlrecord.InDoubt(doubt, err)
		case store.Unknown:
			doubt = true
		default:
		}
		if !backoff.Sleep(ctx, controlrecord.Pace.After(attempt)) {
			return controlrecord.InDoubt(doubt, fmt.Errorf("%w: %w", context.Cause(ctx), err))
		}
	}
}

func (c *Control) tryWrite(ctx context.Context, w store.Write) error {
	ctx, cancel := context.WithTimeout(ctx, controlrecord.Timeout)
	defer cancel()
	_, err := c.st.CompareAndSwap(ctx, w)
	return err
}

// refused explains a refusal. After an attempt without an answer it may be that
// attempt which was applied.
func (c *Control) refused(ctx context.Context, w store.Write, doubt bool) error {
	if !doubt {
		return changedMeanwhile(w.Key, "")
	}
	entry, err := c.get(ctx, w.Key)
	if err == nil && entry.Tombstone && bytes.Equal(entry.Value, w.Value) {
		return nil
	}
	return controlrecord.InDoubt(true, changedMeanwhile(w.Key, ""))
}
