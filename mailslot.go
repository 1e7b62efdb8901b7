package leader

import (
	"context"
	"iter"
	"sync"
)

// A mailslot holds the latest news for one reader: a slow reader skips states, and costs
// nobody anything.
type mailslot struct {
	mu   sync.Mutex
	news *LeaderInfo
	wake chan struct{}
}

func newMailslot() *mailslot { return &mailslot{wake: make(chan struct{}, 1)} }

func (s *mailslot) put(info LeaderInfo) {
	s.mu.Lock()
	s.news = &info
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *mailslot) take() *LeaderInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = nil
	return news
}

// all yields the news until ctx is done or done is closed.
func (s *mailslot) all(ctx context.Context, done <-chan struct{}) iter.Seq[LeaderInfo] {
	return func(yield func(LeaderInfo) bool) {
		for {
			select {
			case <-s.wake:
				if news := s.take(); news != nil && !yield(*news) {
					return
				}
			case <-ctx.Done():
				return
			case <-done:
				if news := s.take(); news != nil {
					yield(*news)
				}
				return
			}
		}
	}
}
