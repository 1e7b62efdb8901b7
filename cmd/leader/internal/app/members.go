package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// A Member is one of the stores of a quorum, and what it holds of a group.
type Member struct {
	Name string `json:"name"`
	// Version is the version of the record that it holds.
	Version uint64 `json:"version"`
	// Lag is how many versions the newest member has more.
	Lag uint64 `json:"lag"`
	// Memory is false if it never had the record, or forgot it.
	Memory bool `json:"memory"`
	// State is up to date, behind, no value yet, no memory (which other members
	// have), refuses or does not answer.
	State MemberState `json:"state"`
	// Error is why nothing is known of what it holds.
	Error string `json:"error,omitempty"`
}

// A MemberState describes a member, for people.
type MemberState string

// The states. A member that is away, refuses or forgot the group leaves no room
// for another.
const (
	MemberCurrent MemberState = "up to date"
	MemberBehind  MemberState = "behind"
	MemberEmpty   MemberState = "no value yet"
	MemberForgot  MemberState = "no memory"
	MemberRefuses MemberState = "refuses" // it lacks a right, or holds the key of another quorum
	MemberAway    MemberState = "does not answer"
)

// Troubled reports whether the member does not count until it is back, healed or
// set right.
func (s MemberState) Troubled() bool {
	return s == MemberForgot || s == MemberRefuses || s == MemberAway
}

// String describes the member, without its name.
func (m Member) String() string {
	switch {
	case m.Error != "":
		return fmt.Sprintf("%s: %s", m.State, m.Error)
	case m.State == MemberBehind && m.Lag == 1:
		return fmt.Sprintf("1 write %s", m.State)
	case m.State == MemberBehind:
		return fmt.Sprintf("%d writes %s", m.Lag, m.State)
	}
	return string(m.State)
}

// Members returns what each member of a quorum holds of a group. It returns
// nothing for other stores.
func Members(ctx context.Context, st store.Store, group string) ([]Member, error) {
	q, ok := st.(interface {
		Inspect(ctx context.Context, key string) ([]quorumstore.MemberState, error)
	})
	if !ok {
		return nil, nil
	}
	states, err := q.Inspect(ctx, group)
	remembered := slices.ContainsFunc(states, func(m quorumstore.MemberState) bool { return m.Memory })
	var all []Member
	for _, s := range states {
		m := Member{Name: s.Name, Version: s.Version, Lag: s.Lag, Memory: s.Memory, State: MemberCurrent}
		switch {
		case s.Err != nil:
			if m.State = MemberAway; store.Classify(s.Err) == store.Permanent {
				m.State = MemberRefuses
			}
			m.Error = strings.ReplaceAll(strings.TrimPrefix(Words(s.Err), fmt.Sprintf("member %q: ", s.Name)), "\n", "; ")
		case !m.Memory && remembered:
			m.State = MemberForgot
		case m.Version == 0:
			m.State = MemberEmpty
		case m.Lag > 0:
			m.State = MemberBehind
		}
		all = append(all, m)
	}
	return all, err
}
