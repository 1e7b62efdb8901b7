package discovery

import (
	"context"
	"errors"
	"maps"
	"time"
)

// An Entry is what a system says of the leader of a group.
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
	// TTL is for how long the entry should stand without a refresh, where the
	// system has entries that expire: half the leader's trust window. Entries
	// that were read have none.
	TTL time.Duration `json:"-"`
}

// IsZero reports whether e is no entry.
func (e Entry) IsZero() bool { return e.Term == 0 && e.Instance == "" }

// Same reports whether o says the same of who leads. TTL does not count.
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
	// Version is the system's own version of what stands, as the condition of
	// the next write. It means something to the adapter alone.
	Version string
	// Damaged reports that what stands is not all that belongs to Entry: others
	// have changed or deleted a part, or it ran out. It is announced again.
	Damaged bool
}

// later reports whether what stands, or stood last, is of a later term than
// that of e, or of another history.
func (s Standing) later(e Entry) bool {
	return s.LastTerm > e.Term || s.LastTerm == e.Term && !s.Entry.IsZero() && !s.Entry.sameTerm(e)
}

// last is what stands, or the term of what stood last.
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
	// Look returns what stands for the group. Nothing is no error. What others
	// wrote there and cannot be read as an entry is a Standing that is Damaged,
	// with a Version by which it can be replaced.
	Look(ctx context.Context, group string) (Standing, error)
	// Announce puts e in the place of what stands, all of it, if the system
	// still is at stands.Version, and returns an error that matches ErrChanged
	// if it is not. After any other error e may have been announced, or may yet
	// be, as long as the system stays at that version.
	Announce(ctx context.Context, e Entry, stands Standing) error
	// Withdraw removes what stands under the same condition.
	Withdraw(ctx context.Context, stands Standing) error
}

// A Refresher is an Announcer whose entries expire.
type Refresher interface {
	Announcer
	// Refresh has the entry, which stands whole, stand for e.TTL from now on.
	// An error that matches ErrChanged has the keeper look again.
	Refresh(ctx context.Context, e Entry, stands Standing) error
}

// A Watcher is an Announcer that tells of changes.
type Watcher interface {
	Announcer
	// Watch calls changed whenever what stands for the group may have changed,
	// its own writes included, until ctx is done. Any other end is an error,
	// and Watch is called again after a delay. changed does not block.
	Watch(ctx context.Context, group string, changed func()) error
}

// Errors of adapters and keepers, for errors.Is.
var (
	// ErrChanged: the system does not stand at the version that was looked at.
	// Nothing was written, and the write will not be applied later.
	ErrChanged = errors.New("discovery: another entry stands by now")
	// ErrSuperseded: an entry of a later term stands where this leader's
	// should.
	ErrSuperseded = errors.New("discovery: the entry of a later term stands")
	// ErrPanicked: the adapter panicked, or called runtime.Goexit. Whether its
	// write was made is unknown.
	ErrPanicked = errors.New("discovery: the adapter panicked")
)
