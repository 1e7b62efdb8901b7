package k8sstore

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestNamesAreThoseThatKubernetesTakes(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"orders": "orders", "team-a.orders": "team-a.orders", "0": "0", "x": "x",
		"_ctl.orders": "x--5fctl.orders", "Orders": "x--4frders", "a_": "ax--5f", "a/b": "ax--2fb", "-": "x--2d", "a-": "ax--2d", "a--b": "ax--2dx--2db",
		"a-.b": "ax--2d.b", "x--5fctl.orders": "xx--2dx--2d5fctl.orders",
	} {
		if got := names("").lease(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
		if got, ok := names("p-").key("p-"+want, ""); !ok || got != key {
			t.Errorf("%s: read back as %q, %v", want, got, ok)
		}
	}
}

func TestNamesThatAreTooLongKeepApart(t *testing.T) {
	t.Parallel()
	const prefix = names("app.")
	seen := make(map[string]string)
	for _, key := range []string{
		strings.Repeat("a", 256), strings.Repeat("a", 255) + "b", strings.Repeat("_", 256), strings.Repeat("a.", 127) + "aa", strings.Repeat("a", 250),
		strings.Repeat("-", 256), strings.Repeat("A", 200), strings.Repeat("a", 212) + "-" + strings.Repeat("b", 43),
	} {
		name := prefix.lease(key)
		if before, is := seen[name]; is {
			t.Errorf("%s and %s have the name %s", before, key, name)
		}
		seen[name] = key
		if len(name) > longest || !subdomain(name) {
			t.Errorf("%s: %s", key, name)
		}
		if got, ok := prefix.key(name, key); !ok || got != key {
			t.Errorf("%s: read back as %q, %v", name, got, ok)
		}
		if _, ok := prefix.key(name, "another"); ok && !prefix.short(key) {
			t.Errorf("%s: read back without its key", name)
		}
	}
}

// subdomain reports whether the name is one of RFC 1123, as Kubernetes has it.
func subdomain(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || !simple(label[0]) || !simple(label[len(label)-1]) {
			return false
		}
		for i := range len(label) {
			if !simple(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return true
}

func TestPrefixesAreRefusedThatNoNameBeginsWith(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]bool{
		"": true, "a": true, "a-": true, "a.": true, "a-b.c-": true, "-": false, ".": false, "a..": false, "a-.": false, "A": false, "a_": false, "a--": false,
		"a/": false, strings.Repeat("a", 153): true, strings.Repeat("a", 154): false,
	} {
		if got := validPrefix(prefix); got != want {
			t.Errorf("%q: %v", prefix, got)
		}
	}
}

// Each key has a unique name, from which it is read back.
func FuzzNames(f *testing.F) {
	f.Add("_ctl.orders", "x--5fctl.orders")
	f.Add("a-", "ax--2d")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !store.ValidKey(a) || !store.ValidKey(b) {
			return
		}
		const prefix = names("p.")
		one, other := prefix.lease(a), prefix.lease(b)
		if a != b && one == other {
			t.Fatalf("%q and %q are both %q", a, b, one)
		}
		if !subdomain(one) || len(one) > longest {
			t.Fatalf("%q is %q", a, one)
		}
		if got, ok := prefix.key(one, ""); prefix.short(a) && (!ok || got != a) {
			t.Fatalf("%q is read back from %q as %q", a, one, got)
		}
	})
}
