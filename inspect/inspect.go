// Package inspect reads what elections keep in a store, for tools that look at
// a store's entries themselves: a command line, a dashboard, a backup.
//
// A program that takes part in an election, or follows one, does not need it:
// see leader.Observe, leader.Snapshot and leader.Control. An entry describes
// the moment when it was written; it cannot show whether its holder still
// leads.
//
// Each group has two keys: the group's name, whose entry [ReadRecord] reads,
// and [ControlKey], whose entry [ReadControl] reads. A group of leader run --once
// has [RanKey], too, whose entry [ReadControl] reads. The functions take any
// entry: foreign data is read as no record.
package inspect

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// ControlKey returns the key at which a group keeps what others want of it. A
// pattern of groups gives the pattern of their keys.
func ControlKey(group string) string { return record.ControlKey(group) }

// RanKey returns the key at which leader run --once notes a group's last run.
// It is a key that every store accepts (see store.ValidKey) if the group's name
// has at most 246 bytes.
func RanKey(group string) string { return record.RanKey(group) }

// DrainKey returns the key at which operators drain an instance.
func DrainKey(instance string) string { return record.DrainKey(instance) }

// DrainKeys is the pattern of the keys of all instances.
const DrainKeys = "_ctl._drain.>"

// A Drain is the order by which an instance is drained.
type Drain struct {
	// Instance is the InstanceID.
	Instance string
	// By is who gave the order, Reason why, and At when, by that one's clock.
	By, Reason string
	At         time.Time
	// Taken reports that a process of the instance has found the order.
	Taken bool
}

// ReadDrain reads the entry of [DrainKey]. drained is false for an entry that was
// deleted, or was never there. ok is false for an entry that is not an order:
// candidates do not obey it, and nothing is known to have changed.
func ReadDrain(e store.Entry) (d Drain, drained, ok bool) {
	read, drained, ok := record.ReadDrain(e)
	return Drain{Instance: read.Instance, By: read.By, Reason: read.Reason, At: read.At.Time(), Taken: read.Taken != ""}, drained, ok
}

// A Record is the content of a group's entry about who leads.
type Record struct {
	// ID is the InstanceID of the holder. It is empty if the entry is a
	// vacancy, or no record.
	ID string
	// Term is the number of the holder's term, or of the last one that is known
	// of a vacancy. 0: none is known.
	Term uint64
	// Token is the holder's. It is a secret between the holder and what it
	// proves its term to: do not show it.
	Token string
	// TTL is the holder's, 0 if the record does not state one.
	TTL time.Duration
}

// ReadRecord reads a group's entry.
func ReadRecord(e store.Entry) Record {
	seen, r := record.Read(e)
	found := Record{ID: r.ID, Term: r.Term, Token: r.Token, TTL: seen.Rec.TTL}
	if r.ID != "" && r.Term == 0 {
		found.Term = seen.Rev // a claim is the term's number, and learns it by its first renewal
	}
	return found
}

// A Control is the content of a control entry. Fields without content are nil.
type Control struct {
	Paused *Pause // the pause in force
	Ran    *Run   // the last run
}

// A Pause is who paused a group, and why, in words for people.
type Pause struct {
	By, Reason string // as the program that paused it gave them
}

// A Run is one of a program that a single instance of all begins in a period,
// as leader run --once does.
type Run struct {
	// Begin is when the period begins, in whole milliseconds.
	Begin time.Time
	// ID is the candidate that began the run, and Term its term.
	ID   string
	Term uint64
}

// Equal reports whether two runs are the same.
func (r Run) Equal(other Run) bool {
	return r.Begin.Equal(other.Begin) && r.ID == other.ID && r.Term == other.Term
}

// ReadControl reads a control entry. An entry that was deleted, or was never
// there, gives an empty Control. ok is false for an entry that is not a control
// record: candidates do not obey it, and nothing is known to have changed.
func ReadControl(e store.Entry) (c Control, ok bool) {
	read, ok := record.ReadControl(e)
	if p := read.Paused; p != nil {
		c.Paused = &Pause{By: p.By, Reason: p.Reason}
	}
	if r := read.Ran; r != nil {
		c.Ran = &Run{Begin: time.UnixMilli(r.Begin), ID: r.ID, Term: r.Term}
	}
	return c, ok
}

// NoteRun returns what to write in place of the entry of [RanKey] or
// [ControlKey] to note a run. It keeps the rest of the entry; an entry that is
// not a control record is replaced. Write it by a compare-and-swap on the
// entry's revision. An error matches store.ErrInvalid: there is no room for it.
func NoteRun(e store.Entry, r Run) (value []byte, err error) {
	c, ok := record.ReadControl(e)
	if !ok {
		c = record.Control{} // nobody obeys it
	}
	c.Ran = &record.Ran{Begin: r.Begin.UnixMilli(), ID: r.ID, Term: r.Term}
	value, err = c.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return value, nil
}
