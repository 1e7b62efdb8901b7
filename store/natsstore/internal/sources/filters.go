package sources

import (
	"maps"
	"slices"
)

// maxFilters is how many keys one consumer names. Whenever the set changes, the
// server compares each filter with each other one: with 512 that takes some
// milliseconds, with 10,000 it took four seconds.
const maxFilters = 512

// maxFilterBytes bounds the keys' lengths together, for the request that names
// them must fit into a message of servers that take small ones only.
const maxFilterBytes = 32 << 10

// A filterSet is the set of keys that one consumer lists one by one. They come
// and go while the consumer exists, and the server gets the changes now and
// then.
type filterSet struct {
	wanted  map[string]bool
	named   map[string]bool // by the consumer, as the server has confirmed
	changed bool            // the two differ, or may
	bytes   int             // of the keys wanted
}

func newFilterSet() *filterSet { return &filterSet{wanted: make(map[string]bool)} }

func (s *filterSet) full() bool { return len(s.wanted) >= maxFilters || s.bytes >= maxFilterBytes }

func (s *filterSet) add(key string) {
	s.bytes += len(key)
	s.wanted[key] = true
	s.changed = true
}

// drop wants a wanted key no more, and reports whether none is left.
func (s *filterSet) drop(key string) (empty bool) {
	delete(s.wanted, key)
	s.bytes -= len(key)
	s.changed = true
	return len(s.wanted) == 0
}

func (s *filterSet) keys() []string { return slices.Sorted(maps.Keys(s.wanted)) }

// confirm notes that the consumer names these keys and no others. It returns
// those that it did not name before and that are still wanted.
func (s *filterSet) confirm(keys []string) (added []string) {
	before := s.named
	s.named = make(map[string]bool, len(keys))
	for _, key := range keys {
		s.named[key] = true
		if s.wanted[key] && !before[key] {
			added = append(added, key)
		}
	}
	s.changed = !maps.Equal(s.wanted, s.named)
	return added
}
