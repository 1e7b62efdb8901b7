package etcdstore

import (
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store"
)

// A register is two keys of etcd, of which one exists at a time: its own name,
// and that with the suffix deleted, which holds a tombstone's value. No name of
// a register contains a plus sign or anything else that sorts before the comma,
// so the range from the name to the name and a comma holds both and nothing of
// another register.
const (
	deleted = "+deleted"
	beyond  = ","
)

// names are the keys of etcd for a prefix.
type names string

func (n names) live(key string) string    { return string(n) + key }
func (n names) deleted(key string) string { return string(n) + key + deleted }

// span is the range of a register.
func (n names) span(key string) (from, to string) { return n.live(key), n.live(key) + beyond }

// wide is the range of all registers that may match a pattern.
func (n names) wide(pattern string) (from, to string) {
	literal, _, _ := strings.Cut(pattern, "*")
	literal, _, _ = strings.Cut(literal, ">")
	if literal == pattern {
		return n.span(pattern)
	}
	from = n.live(literal)
	return from, clientv3.GetPrefixRangeEnd(from)
}

// register returns the register to which a key of etcd belongs, if any.
func (n names) register(raw []byte) (key string, tombstone, ok bool) {
	name, ok := strings.CutPrefix(string(raw), string(n))
	if !ok {
		return "", false, false
	}
	key, tombstone = strings.CutSuffix(name, deleted)
	return key, tombstone, store.ValidKey(key)
}

// entry is a register's state by one of its keys.
func entry(key string, tombstone bool, kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: key, Revision: uint64(kv.ModRevision), Value: kv.Value, Tombstone: tombstone}
}

// entries are the states of the registers to which the keys belong. Where both
// keys of one exist, another tool has written over a tombstone, which then
// counts for nothing.
func (n names) entries(kvs []*mvccpb.KeyValue) []store.Entry {
	at := make(map[string]int, len(kvs))
	var all []store.Entry
	for _, kv := range kvs {
		key, tombstone, ok := n.register(kv.Key)
		if !ok {
			continue
		}
		i, seen := at[key]
		switch {
		case !seen:
			at[key] = len(all)
			all = append(all, entry(key, tombstone, kv))
		case !tombstone:
			all[i] = entry(key, false, kv)
		}
	}
	return all
}
