package discovery

import (
	"context"
	"errors"
	"maps"
	"time"
)

// An Entry is a system's entry for the leader of a group.
type Entry struct {
	// Group is the group's name, Instance the leader's InstanceID.
	Group    string `json:"group"`
	Instance string `json:"instance"`
	// Term is the number of the leader's term. Correlation is a short hash of
	// the term's token.
	Term        uint64 `json:"term"`
	Correlation string `json:"correlation"`
	// Address is ElectionConfig.Address, in any form that the group's clients
	// agree on. Adapters demand the form that their system needs.
	Address string `json:"address,omitempty"`
	// Meta is ElectionConfig.Meta. It is shared: do not modify it.
	Meta map[string]string `json:"meta,omitempty"`
	// TTL is how long the entry should last without a refresh, where the system
	// has entries that expire: half the leader's trust window. Entries that
	// were read have none.
	TTL time.Duration `json:"-"`
}

// IsZero reports whether e is empty.
func (e Entry) IsZero() bool { return e.Term == 0 && e.Instance == "" }

// Same reports whether o names the same leader in the same way. TTL does not
// count.
func (e Entry) Same(o Entry) bool {
	return e.sameTerm(o) && e.Group == o.Group && e.Instance == o.Instance && e.Address == o.Address && maps.Equal(e.Meta, o.Meta)
}

func (e Entry) sameTerm(o Entry) bool { return e.Term == o.Term && e.Correlation == o.Correlation }

// A Standing is what a system holds for a group at some instant.
type Standing struct {
	// Entry is what is announced; zero if nothing is.
	Entry Entry
	// LastTerm is the largest term of which the system remembers that it was
	// announced. A system may keep it beyond a withdrawal, so that a write that
	// comes late is refused; without such a memory it is Entry.Term.
	LastTerm uint64
	// Version is the system's own version of the entry, as the condition of the
	// next write. Only the adapter interprets it.
	Version string
	// Damaged reports that the stored state lacks a part of Entry: others have
	// changed or deleted a part, or it ran out. It is announced again.
	Damaged bool
}

// later reports whether the entry, or the last one, has a later term than e, or
// another history.
func (s Standing) later(e Entry) bool {
	return s.LastTerm > e.Term || s.LastTerm == e.Term && !s.Entry.IsZero() && !s.Entry.sameTerm(e)
}

// last is the entry, or the term of the last one.
func (s Standing) last() Entry {
	if s.Entry.IsZero() {
		return Entry{Term: s.LastTerm}
	}
	return s.Entry
}

// An Announcer writes entries into one system. Its methods are called by one
// goroutine for each group, and by several for several groups. Each returns
// soon after ctx is done: a call that does not holds up its keeper.
type Announcer interface {
	// Look returns the state for the group. An absent entry is not an error.
	// Content that others wrote there and that cannot be read as an entry is a
	// Standing that is Damaged, with a Version by which it can be replaced.
	Look(ctx context.Context, group string) (Standing, error)
	// Announce replaces the whole state with e, if the system still is at
	// stands.Version, and returns an error that matches ErrChanged if it is
	// not. After any other error e may have been announced, or may yet be, as
	// long as the system stays at that version.
	Announce(ctx context.Context, e Entry, stands Standing) error
	// Withdraw removes the entry under the same condition.
	Withdraw(ctx context.Context, stands Standing) error
}

// A Refresher is an Announcer whose entries expire.
type Refresher interface {
	Announcer
	// Refresh makes the entry, which is undamaged, last for e.TTL from now on.
	// After an error that matches ErrChanged the keeper looks again.
	Refresh(ctx context.Context, e Entry, stands Standing) error
}

// A Watcher is an Announcer that reports changes.
type Watcher interface {
	Announcer
	// Watch calls changed whenever the entry of the group may have changed, its
	// own writes included, until ctx is done. Any other end is an error, and
	// Watch is called again after a delay. changed does not block.
	Watch(ctx context.Context, group string, changed func()) error
}

// Errors of adapters and keepers, for errors.Is.
var (
	// ErrChanged: the system is not at the version that was looked at. Nothing
	// was written, and the write will not be applied later.
	ErrChanged = errors.New("discovery: the entry was changed meanwhile")
	// ErrSuperseded: an entry of a later term is in the place of this leader's.
	ErrSuperseded = errors.New("discovery: the entry of a later term exists")
	// ErrPanicked: the adapter panicked, or called runtime.Goexit. Whether its
	// write was made is unknown.
	ErrPanicked = errors.New("discovery: the adapter panicked")
)
