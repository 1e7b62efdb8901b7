package preference

import (
	"cmp"
	"slices"
	"strings"
)

// compareVersions compares dotted numbers, as Semantic Versioning 2.0.0 does
// (section 11): a pre-release comes before its release, and build metadata is
// nothing. A version that cannot be parsed, or is missing, comes before all
// others.
func compareVersions(a, b string) int {
	if pa, pb := Parsable(a), Parsable(b); !pa || !pb {
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

// splitVersion returns the numbers without trailing zeros, so that 1.2 is
// 1.2.0, and what follows the dash.
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

// Parsable reports whether v begins with dotted numbers.
func Parsable(v string) bool {
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

// comparePrerelease compares one identifier of a pre-release: numbers by value,
// before all others.
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
