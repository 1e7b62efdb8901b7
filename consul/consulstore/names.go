package consulstore

import (
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
)

// Agents clean the path of a request as a file path, so that a name with an
// empty segment, or a segment that is a dot, would address another key (1.22:
// agent/kvs_endpoint.go, KVSEndpoint; in a transaction names are taken
// literally). In Consul such segments have these names, which cannot clash: a
// tilde is not a letter of the registers' alphabet. Two dots in a row are not
// allowed in keys either.
const (
	empty = "~"
	dot   = "~."
)

// names are the keys of Consul for a prefix.
type names string

// of is the key of a register.
func (n names) of(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		switch s {
		case "":
			segments[i] = empty
		case ".":
			segments[i] = dot
		}
	}
	return string(n) + strings.Join(segments, "/")
}

// register returns the register to which a key of Consul belongs, if any.
func (n names) register(raw string) (key string, ok bool) {
	name, ok := strings.CutPrefix(raw, string(n))
	if !ok {
		return "", false
	}
	segments := strings.Split(name, "/")
	for i, s := range segments {
		switch s {
		case empty:
			segments[i] = ""
		case dot:
			segments[i] = "."
		}
	}
	key = strings.Join(segments, "/")
	return key, store.ValidKey(key) && n.of(key) == raw
}

// wide is what all keys begin with whose registers may match a pattern. A last
// segment that may have another name in Consul is left out.
func (n names) wide(pattern string) string {
	literal, _, _ := strings.Cut(pattern, "*")
	literal, _, _ = strings.Cut(literal, ">")
	rest, last := "", literal
	if i := strings.LastIndexByte(literal, '/'); i >= 0 {
		rest, last = literal[:i], literal[i+1:]
		rest = strings.TrimPrefix(n.of(rest), string(n)) + "/"
	}
	if last == "." {
		last = ""
	}
	return string(n) + rest + last
}

// The lowest bit of the flags, a number that Consul keeps beside each value,
// marks a tombstone. The other bits contain the revision that the write
// replaced. Consul reports a write that changes nothing as done without a new
// index (agent/consul/state, kvsSetTxn), so two equal writes with the same
// expectation would otherwise both succeed.
func flags(w store.Write) uint64 {
	f := w.Expected << 1
	if w.Tombstone {
		f |= tombstone
	}
	return f
}

const tombstone = 1

// entry is a register's state by its key.
func entry(key string, kv *api.KVPair) store.Entry {
	return store.Entry{Key: key, Revision: kv.ModifyIndex, Value: kv.Value, Tombstone: kv.Flags&tombstone != 0}
}

// entries are the states of the registers among the keys.
func (n names) entries(kvs api.KVPairs) []store.Entry {
	all := make([]store.Entry, 0, len(kvs))
	for _, kv := range kvs {
		if key, ok := n.register(kv.Key); ok {
			all = append(all, entry(key, kv))
		}
	}
	return all
}
