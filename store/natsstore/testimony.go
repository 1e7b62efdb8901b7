package natsstore

import (
	"slices"
	"sync"
	"time"
)

// A testimony is what is known by more than a read, which any copy of the
// stream may answer. It is safe for concurrent use.
type testimony struct {
	mu     sync.Mutex
	named  map[string]uint64 // the revision of each key that a refused write has named last
	made   time.Time         // when the stream was made that it is of; zero: unknown
	copies []string          // other streams that answered reads
}

// name notes the revision at which the stream's leader has a key.
func (t *testimony) name(key string, revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.named == nil {
		t.named = make(map[string]uint64)
	}
	t.named[key] = max(t.named[key], revision)
}

// least returns the lowest revision that the key can have, as far as is known.
func (t *testimony) least(key string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.named[key]
}

// forget drops what is known of a key that the stream no longer holds.
func (t *testimony) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.named, key)
}

// of notes which stream it is. Revisions of another stream mean nothing in it.
func (t *testimony) of(made time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.made.IsZero() && !made.Equal(t.made) {
		clear(t.named)
	}
	t.made = made
}

// copied notes that another stream answered a read, and reports whether it is
// the first time.
func (t *testimony) copied(stream string) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.copies, stream) {
		return false
	}
	t.copies = append(t.copies, stream)
	return true
}

func (t *testimony) copiesSeen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.copies)
}
