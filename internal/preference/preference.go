// Package preference orders candidates: who goes first at a vacancy, and who
// may ask a leader to hand over. It grants nothing.
package preference

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/seed-ff2cb582/leader/internal/record"
)

// A Policy is which versions of the program are preferred.
type Policy uint8

// The policies.
const (
	Any   Policy = iota // no difference between versions
	Older               // the lowest version is preferred
	Newer               // the highest version is preferred
)

// String shows a policy as configurations name it.
func (p Policy) String() string {
	switch p {
	case Any:
		return "any"
	case Older:
		return "prefer-older"
	case Newer:
		return "prefer-newer"
	default:
		return strconv.Itoa(int(p))
	}
}

// A Standing is that by which one candidate is preferred to another.
type Standing struct {
	Priority int
	Version  string
}

// Outranks reports whether a is preferred to b. The order is strict: of two
// that are equal neither is preferred, so that leadership does not go back and
// forth between them.
func (p Policy) Outranks(a, b Standing) bool { return p.compare(a, b) > 0 }

func (p Policy) compare(a, b Standing) int {
	if p != Any {
		c := compareVersions(a.Version, b.Version)
		if p == Older {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Priority, b.Priority)
}

// Same reports whether two standings make no difference under the policy.
func (p Policy) Same(a, b Standing) bool { return p.compare(a, b) == 0 }

// MaxAge is for how many terms a standing is remembered of which nobody was
// heard.
const MaxAge = 2

// Standings are the standings of a group, the most preferred first. They are
// never modified in place: a write that is under way may hold them.
type Standings []record.Standing

func of(s record.Standing) Standing { return Standing{s.Priority, s.Version} }

// Heard returns the standings with s, as one that was just heard of. A group in
// which all candidates are alike keeps none.
func (l Standings) Heard(p Policy, s Standing) Standings {
	if s.Priority == 0 && p == Any && len(l) == 0 {
		return nil
	}
	fresh := record.Standing{Priority: s.Priority}
	if p != Any {
		fresh.Version = s.Version
	}
	next := Standings{fresh}
	for _, old := range l {
		if !p.Same(of(old), s) {
			next = append(next, old)
		}
	}
	slices.SortFunc(next, func(a, b record.Standing) int { return p.compare(of(b), of(a)) })
	return next[:min(len(next), record.MaxStandings)]
}

// Aged returns the standings as a new term begins with them.
func (l Standings) Aged() Standings {
	var next Standings
	for _, s := range l {
		if s.Age < MaxAge { // compared first: an age that somebody wrote may be the largest number
			s.Age++
			next = append(next, s)
		}
	}
	return next
}

// Fresh returns those that were heard of in this term.
func (l Standings) Fresh() Standings {
	return slices.DeleteFunc(slices.Clone(l), func(s record.Standing) bool { return s.Age > 0 })
}

// Know reports whether s was heard of in this term.
func (l Standings) Know(p Policy, s Standing) bool {
	return slices.ContainsFunc(l, func(o record.Standing) bool { return o.Age == 0 && p.Same(of(o), s) })
}

// Behind counts the standings that are preferred to s.
func (l Standings) Behind(p Policy, s Standing) (n uint8) {
	for _, o := range l[:min(len(l), record.MaxStandings)] {
		if p.Outranks(of(o), s) {
			n++
		}
	}
	return n
}
