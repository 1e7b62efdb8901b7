package consulstore

import (
	"path"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// every calls f with each string of up to n letters of the alphabet.
func every(alphabet string, n int, f func(string)) {
	all := []string{""}
	for range n {
		var longer []string
		for _, s := range all {
			for _, c := range alphabet {
				longer = append(longer, s+string(c))
				f(s + string(c))
			}
		}
		all = longer
	}
}

func TestNamesAreKept(t *testing.T) {
	t.Parallel()
	n, taken := names("p/"), map[string]string{}
	every("a./=", 6, func(key string) {
		if !store.ValidKey(key) {
			return
		}
		raw := n.of(key)
		if other, is := taken[raw]; is {
			t.Fatalf("%q and %q are both %q", key, other, raw)
		}
		taken[raw] = key
		if back, ok := n.register(raw); !ok || back != key {
			t.Fatalf("%q is %q, and that is %q, %v", key, raw, back, ok)
		}
		// As an agent does with the path of a request.
		if path.Clean(raw) != raw {
			t.Fatalf("%q is %q, which is cleaned to %q", key, raw, path.Clean(raw))
		}
	})
	for _, foreign := range []string{"q/a", "p/", "p/a//b", "p/./a", "p/a~", "p", "p/a b", "p/~/../a"} {
		if key, ok := n.register(foreign); ok {
			t.Errorf("%q counts as the register %q", foreign, key)
		}
	}
}

func TestMatchesOfAPatternAreBelow(t *testing.T) {
	t.Parallel()
	n := names("p/")
	var keys []string
	every("a./", 5, func(key string) {
		if store.ValidKey(key) {
			keys = append(keys, key)
		}
	})
	every("a./*>", 4, func(pattern string) {
		if !store.ValidPattern(pattern) || !store.Wild(pattern) {
			return
		}
		for _, key := range keys {
			if store.MatchPattern(pattern, key) && !strings.HasPrefix(n.of(key), n.wide(pattern)) {
				t.Fatalf("%q matches %q, and is %q, not below %q", key, pattern, n.of(key), n.wide(pattern))
			}
		}
	})
	for pattern, want := range map[string]string{">": "p/", "*": "p/", "orders.*": "p/orders.", "a/b.>": "p/a/b.", "a//b.*": "p/a/~/b."} {
		if got := n.wide(pattern); got != want {
			t.Errorf("%q is below %q, want %q", pattern, got, want)
		}
	}
}
