package store_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestPatternsAreKeysWithWholeTokensWild(t *testing.T) {
	for pattern, want := range map[string]bool{
		"a": true, "*": true, ">": true, "a.*": true, "*.a": true, "a.>": true, "*.*": true, "*.>": true, "a.*.c": true, "_ctl.>": true,
		strings.Repeat("a", store.MaxKey-2) + ".>": true,

		"": false, ".": false, "a.": false, "a*": false, "*a": false, "a>": false, ">a": false, ">.a": false, "a.>.b": false, "**": false,
		"*>": false, ">>": false, "a..*": false, ".*": false, "*.": false, "a b": false, "a.ä": false, "a/*": false,
		strings.Repeat("a", store.MaxKey) + ".>": false,
	} {
		if got := store.ValidPattern(pattern); got != want {
			t.Errorf("%q: %t, want %t", pattern, got, want)
		}
	}
}

func TestPatternsMatchTokenByToken(t *testing.T) {
	for _, c := range []struct {
		pattern string
		match   []string
		differ  []string
	}{
		{"a", []string{"a"}, []string{"b", "A", "a.a", "aa", ""}},
		{"a.b", []string{"a.b"}, []string{"a", "b", "a.b.c", "a.c", "b.b"}},
		{"*", []string{"a", "b", "a/b", "_x"}, []string{"a.b", ""}},
		{"a.*", []string{"a.b", "a.c"}, []string{"a", "b.a", "a.b.c", "a."}},
		{"*.b", []string{"a.b", "_ctl.b"}, []string{"b", "a.c", "a.b.b"}},
		{"a.*.c", []string{"a.b.c"}, []string{"a.c", "a.b.d", "a.b.c.d"}},
		{">", []string{"a", "a.b", "a.b.c", "_ctl.a"}, []string{""}},
		{"a.>", []string{"a.b", "a.b.c"}, []string{"a", "b.a", "aa.b"}},
		{"*.>", []string{"a.b", "a.b.c"}, []string{"a"}},
	} {
		for want, keys := range map[bool][]string{true: c.match, false: c.differ} {
			for _, key := range keys {
				if got := store.MatchPattern(c.pattern, key); got != want {
					t.Errorf("%q and key %q: %t, want %t", c.pattern, key, got, want)
				}
			}
		}
	}
}

func TestOnlyAPatternWithWildcardsIsWild(t *testing.T) {
	for pattern, want := range map[string]bool{"a": false, "a.b": false, "*": true, "a.*": true, "a.>": true} {
		if got := store.Wild(pattern); got != want {
			t.Errorf("%q: %t, want %t", pattern, got, want)
		}
	}
}
