package k8sstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// A Lease's name is an RFC 1123 subdomain: at most 253 lower-case letters,
// digits, hyphens and dots, where each part between dots begins and ends with a
// letter or a digit. A key of these characters is its own name. Each other byte
// becomes "x--" and two hexadecimal digits: "_ctl.orders" is "x--5fctl.orders".
// A hyphen stays as it is between letters and digits, so that two in a row are
// always an escape.
const (
	escape  = "x--"
	longest = 253
)

// A name that would be longer is cut off, and ends with the key's hash, which
// is not two hexadecimal digits after "x--". The key itself is kept in an
// annotation.
const (
	hashed   = escape + "h"
	hashSize = 16
)

// names are the names of Leases for a prefix.
type names string

// lease is the name of the Lease for a key.
func (n names) lease(key string) string {
	name := string(n) + escaped(key)
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	tail := hashed + hex.EncodeToString(sum[:hashSize])
	// The part before the hash may end in the middle of an escape, since it is
	// not read back, but not with a dot or a hyphen.
	return strings.TrimRight(name[:longest-len(tail)], "-.") + tail
}

// short reports whether the key can be read from the name.
func (n names) short(key string) bool { return len(n)+len(escaped(key)) <= longest }

// key is the key of a Lease's name, if it is one of this prefix. noted is the
// key in the Lease's annotation.
func (n names) key(name, noted string) (key string, ok bool) {
	if noted != "" && !n.short(noted) && store.ValidKey(noted) && n.lease(noted) == name {
		return noted, true
	}
	rest, ok := strings.CutPrefix(name, string(n))
	if !ok {
		return "", false
	}
	if key, ok = unescaped(rest); !ok || !store.ValidKey(key) {
		return "", false
	}
	return key, n.lease(key) == name
}

func escaped(key string) string {
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c == '.', simple(c), c == '-' && i > 0 && i < len(key)-1 && simple(key[i-1]) && simple(key[i+1]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%s%02x", escape, c)
		}
	}
	return b.String()
}

func unescaped(name string) (key string, ok bool) {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(name, escape)
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		if len(rest) < 2 {
			return "", false
		}
		raw, err := hex.DecodeString(rest[:2])
		if err != nil {
			return "", false
		}
		b.Write(raw)
		name = rest[2:]
	}
}

// simple reports whether the byte represents itself everywhere in a name.
func simple(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// validPrefix reports whether names with this prefix are names of Leases, from
// which their keys can be read.
func validPrefix(prefix string) bool {
	const room = 100 // for a key that is cut off
	if len(prefix) > longest-room || strings.Contains(prefix, "--") {
		return false
	}
	name := prefix + "x"
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || !simple(part[0]) {
			return false
		}
		for i := range len(part) {
			if !simple(part[i]) && part[i] != '-' || part[i] == '-' && i == len(part)-1 {
				return false
			}
		}
	}
	return true
}
