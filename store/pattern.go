package store

import "strings"

// ValidPattern reports whether the pattern is one of a [PatternWatcher]: a key
// ([ValidKey]) in which any of the tokens that dots separate may be *, and the
// last one >. These are the wildcards of NATS subjects.
func ValidPattern(pattern string) bool {
	literal := []byte(pattern)
	for i, c := range literal {
		switch {
		case c != '*' && c != '>':
		case i > 0 && literal[i-1] != '.', i < len(literal)-1 && (c == '>' || pattern[i+1] != '.'):
			return false // not a whole token, or not the last
		default:
			literal[i] = '_'
		}
	}
	return ValidKey(string(literal))
}

// Wild reports whether the pattern may match more than one key.
func Wild(pattern string) bool { return strings.ContainsAny(pattern, "*>") }

// MatchPattern reports whether the key matches the pattern: token by token,
// where * matches any one token and a > at the end one or more.
func MatchPattern(pattern, key string) bool {
	for {
		want, wants, more := strings.Cut(pattern, ".")
		have, rest, deeper := strings.Cut(key, ".")
		switch {
		case want == ">" && !more:
			return have != ""
		case want != "*" && want != have, have == "", more != deeper:
			return false
		case !more:
			return true
		}
		pattern, key = wants, rest
	}
}
