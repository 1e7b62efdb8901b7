package memstore

import (
	"bytes"
	"maps"

	"github.com/seed-ff2cb582/leader/store"
)

// The methods of this file do not belong to the contract of package store, and
// no election calls them. They model what happens to a real store behind an
// election's back: an operator with an unconditional tool, a restored backup.

// Delete deletes the key as an operator's tool does (nats kv del): without a
// condition, leaving a bare tombstone with a new revision and no value. It
// returns that revision. Like the real tools it also marks a key that was never
// written.
func (s *Store) Delete(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(store.Entry{Key: key, Tombstone: true})
}

// Put overwrites the key without a condition, as a foreign program does that
// knows nothing of elections. It returns the write's revision.
func (s *Store) Put(key string, value []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(store.Entry{Key: key, Value: bytes.Clone(value)})
}

// Purge destroys every trace of the key, as a purge of the stream below a NATS
// bucket does: the key has revision 0 again. The counter goes on, so that the
// next write's revision is larger than all earlier ones nevertheless.
func (s *Store) Purge(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	s.tell(store.Entry{Key: key})
}

// Restore models a store that lost acknowledged writes: it replaces all
// registers by entries (those with revision 0 count as absent) and sets the
// counter so that the next write's revision is last+1. Revisions may repeat
// after it, which breaks the contract, as such a store does. Watches hear of
// each register that changed. The caller must not modify the entries' values
// afterwards.
func (s *Store) Restore(entries []store.Entry, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.entries
	s.last, s.entries = last, make(map[string]store.Entry, len(entries))
	for _, e := range entries {
		if e.Revision != 0 {
			s.entries[e.Key] = e
		}
	}
	changed := maps.Clone(s.entries)
	for key := range before {
		changed[key] = s.state(key)
	}
	for key, now := range changed {
		if now.Revision != before[key].Revision || !bytes.Equal(now.Value, before[key].Value) {
			s.tell(now)
		}
	}
}
