package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A shyStore cannot be watched at first.
type shyStore struct {
	*memstore.Store

	refuse int
	with   error
	asked  int
}

func (s *shyStore) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (func(), error) {
	s.asked++
	s.refuse--
	if s.refuse >= 0 {
		return nil, s.with
	}
	return s.Store.WatchPattern(ctx, pattern, deliver, present)
}

// A hearing is a report of FollowPauses.
type hearing struct {
	mu       sync.Mutex
	stand    map[string]*inspect.Pause
	presents int
}

func (h *hearing) pause(group string, p *inspect.Pause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stand[group] = p
}

func (h *hearing) present() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.presents++
}

func (h *hearing) now() (stand map[string]*inspect.Pause, presents int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.stand), h.presents
}

// A control record that is malformed is obeyed by nobody: the group stays
// paused, and its candidates write that there again.
func TestPauseLastsThoughItsRecordIsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &shyStore{Store: memstore.New(), refuse: 2, with: errors.New("not yet")}
		st.Put("_ctl.jobs", []byte(`{"paused":{"by":"ann"}}`))
		st.Put("_ctl.other", []byte(`{}`))
		ctx, cancel := context.WithCancel(t.Context())
		told := &hearing{stand: make(map[string]*inspect.Pause)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			FollowPauses(ctx, st, ">", told.pause, nil, told.present)
		}()
		synctest.Wait()
		if stand, presents := told.now(); presents != 1 || len(stand) != 0 {
			t.Errorf("before it can be watched: called %d times, %v", presents, stand)
		}
		time.Sleep(3 * retry)
		st.Put("_ctl.jobs", []byte("garbage"))
		synctest.Wait()
		stand, presents := told.now()
		if p := stand["jobs"]; p == nil || p.By != "ann" || stand["other"] != nil || len(stand) != 2 || presents < 3 {
			t.Errorf("called %d times, %+v", presents, stand)
		}
		st.Put("_ctl.jobs", []byte(`{}`))
		synctest.Wait()
		if stand, _ := told.now(); stand["jobs"] != nil {
			t.Errorf("%+v", stand)
		}
		cancel()
		<-done
	})
}

// Each attempt of a user without the right is a line in the server's log. A
// bucket that is missing may be made at any time.
func TestPausesThatMayNotBeReadAreAskedForRarely(t *testing.T) {
	for refusal, want := range map[error]int{nats.ErrPermissionViolation: 10, jetstream.ErrStreamNotFound: 300} {
		synctest.Test(t, func(t *testing.T) {
			st := &shyStore{Store: memstore.New(), refuse: 1 << 20, with: fmt.Errorf("%w: %w", store.ErrPermanent, refusal)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*retryDenied-retry/2)
			defer cancel()
			FollowPauses(ctx, st, ">", func(string, *inspect.Pause) {}, nil, func() {})
			if st.asked != want {
				t.Errorf("%v: asked %d times, not %d", refusal, st.asked, want)
			}
		})
	}
}
