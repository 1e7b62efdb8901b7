package app

import (
	"context"
	"sync"
	"time"
)

// A questioning is what a session has in common among its questions about
// records. The zero value is ready.
type questioning struct {
	mu    sync.Mutex
	turns chan struct{}
	first map[string]sight
}

// A sight is since when a session has seen a record at a revision.
type sight struct {
	revision uint64
	since    time.Time
}

// turn waits until fewer than 32 questions are being asked, since the servers
// have other work.
func (q *questioning) turn(ctx context.Context) (release func(), err error) {
	q.mu.Lock()
	if q.turns == nil {
		q.turns = make(chan struct{}, 32)
	}
	q.mu.Unlock()
	select {
	case q.turns <- struct{}{}:
		return func() { <-q.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// seen returns when the record was first seen at this revision.
func (q *questioning) seen(group string, revision uint64, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.first[group]; ok && known.revision == revision {
		return known.since
	}
	if q.first == nil {
		q.first = make(map[string]sight)
	}
	q.first[group] = sight{revision, now}
	return now
}
