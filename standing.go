package leader

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/internal/record"
)

// A standing is by what one candidate is preferred to another.
type standing struct {
	priority int
	version  string
}

func (c ElectionConfig) standing() standing { return standing{c.Priority, c.Version} }

// outranks tells whether a is preferred to b. It is a strict order: of two that are equal neither is
// preferred, so that leadership does not go back and forth between them.
func (p VersionPolicy) outranks(a, b standing) bool { return p.compare(a, b) > 0 }

func (p VersionPolicy) compare(a, b standing) int {
	if p != PreferAny {
		c := compareVersions(a.version, b.version)
		if p == PreferOlder {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.priority, b.priority)
}

// same tells whether two standings make no difference under the policy.
func (p VersionPolicy) same(a, b standing) bool { return p.compare(a, b) == 0 }

// compareVersions compares dotted numbers, as Semantic Versioning 2.0.0 does (section 11): a
// pre-release comes before its release, and build metadata is nothing. A version that cannot be parsed, or is
// missing, comes before all others.
func compareVersions(a, b string) int {
	if pa, pb := parsable(a), parsable(b); !pa || !pb {
		return compareBools(pa, pb)
	}
	na, ra, preA := splitVersion(a)
	nb, rb, preB := splitVersion(b)
	if c := slices.CompareFunc(na, nb, compareNumbers); c != 0 {
		return c
	}
	if preA != preB {
		return compareBools(preB, preA)
	}
	return slices.CompareFunc(ra, rb, comparePrerelease)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// splitVersion returns the numbers without trailing zeros, so that 1.2 is 1.2.0, and what follows the dash.
func splitVersion(v string) (numbers, prerelease []string, pre bool) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
	v, rest, pre := strings.Cut(v, "-")
	numbers = strings.Split(v, ".")
	for len(numbers) > 1 && strings.Trim(numbers[len(numbers)-1], "0") == "" {
		numbers = numbers[:len(numbers)-1]
	}
	if pre {
		prerelease = strings.Split(rest, ".")
	}
	return numbers, prerelease, pre
}

// parsable tells whether v begins with dotted numbers.
func parsable(v string) bool {
	v = strings.TrimPrefix(v, "v")
	v, _, _ = strings.Cut(v, "+")
	v, _, _ = strings.Cut(v, "-")
	for number := range strings.SplitSeq(v, ".") {
		if !isNumber(number) {
			return false
		}
	}
	return true
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// comparePrerelease compares one identifier of a pre-release: numbers by value, before all others.
func comparePrerelease(a, b string) int {
	na, nb := isNumber(a), isNumber(b)
	switch {
	case na && nb:
		return compareNumbers(a, b)
	case na != nb:
		return compareBools(nb, na)
	default:
		return cmp.Compare(a, b)
	}
}

// maxAge is for how many terms a standing is remembered of which nobody was heard.
const maxAge = 2

// standings are those of a group, the most preferred first. They are never modified in place:
// a write that is under way may hold them.
type standings []record.Standing

func of(s record.Standing) standing { return standing{s.Priority, s.Version} }

// heard returns the standings with s, as one that was just heard of. A group in which all
// candidates are alike keeps none.
func (l standings) heard(p VersionPolicy, s standing) standings {
	if s.priority == 0 && p == PreferAny && len(l) == 0 {
		return nil
	}
	fresh := record.Standing{Priority: s.priority}
	if p != PreferAny {
		fresh.Version = s.version
	}
	next := standings{fresh}
	for _, old := range l {
		if !p.same(of(old), s) {
			next = append(next, old)
		}
	}
	slices.SortFunc(next, func(a, b record.Standing) int { return p.compare(of(b), of(a)) })
	return next[:min(len(next), record.MaxStandings)]
}

// aged returns the standings as a new term begins with them.
func (l standings) aged() standings {
	var next standings
	for _, s := range l {
		s.Age++
		if s.Age <= maxAge {
			next = append(next, s)
		}
	}
	return next
}

// fresh returns those that were heard of in this term.
func (l standings) fresh() standings {
	return slices.DeleteFunc(slices.Clone(l), func(s record.Standing) bool { return s.Age > 0 })
}

// knows tells whether s was heard of in this term.
func (l standings) knows(p VersionPolicy, s standing) bool {
	return slices.ContainsFunc(l, func(o record.Standing) bool { return o.Age == 0 && p.same(of(o), s) })
}

// behind counts the standings that are preferred to s.
func (l standings) behind(p VersionPolicy, s standing) (n uint8) {
	for _, o := range l[:min(len(l), record.MaxStandings)] {
		if p.outranks(of(o), s) {
			n++
		}
	}
	return n
}

// String shows a policy as configurations name it.
func (p VersionPolicy) String() string {
	switch p {
	case PreferAny:
		return "any"
	case PreferOlder:
		return "prefer-older"
	case PreferNewer:
		return "prefer-newer"
	default:
		return strconv.Itoa(int(p))
	}
}
