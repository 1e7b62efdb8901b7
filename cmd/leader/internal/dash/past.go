package dash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/archive"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
)

const (
	// memory is how far back the page's timelines go.
	memory = 24 * time.Hour
	// maxAdvisories is how many messages of a history are read at most.
	maxAdvisories = 20_000
)

// A past is how far back the terms on the page go.
type past struct {
	Began int64 `json:"began"` // when the command started
	Since int64 `json:"since"` // nothing is known of before
	// Stream is the source of the terms that ended before the command started.
	// If it is empty, Why explains why there are none.
	Stream string `json:"stream,omitempty"`
	Why    string `json:"why,omitempty"`
}

// recall adds what others know of the time before the command's start. That
// happens beside everything else: the page is there at once, and what is
// recalled is put into a board that lives. It happens once, and once more where
// the groups could not be read in full at first, since what is recalled is of
// groups that are known.
func (s *server) recall(ctx context.Context) {
	if !s.known(ctx) {
		return
	}
	whole := s.board.State().Complete
	s.recallTerms(ctx)
	read.Learn(ctx, s.session, ">", s.board)
	if !whole && s.completed(ctx) {
		s.recallTerms(ctx)
		read.Learn(ctx, s.session, ">", s.board)
	}
}

// recallTerms adds the earlier terms of a history, if there is one. A missing
// history is shown to visitors, since otherwise an empty page would seem to
// mean that nothing happened.
func (s *server) recallTerms(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.session.Timeout)
	defer cancel()
	start := time.UnixMilli(s.past.Load().Began)
	h, err := s.history(ctx, start.Add(-memory))
	if err != nil {
		if errors.Is(err, archive.ErrNone) {
			err = fmt.Errorf("%w (leader history enable makes one)", err)
		}
		s.past.Store(&past{Began: start.UnixMilli(), Since: start.UnixMilli(), Why: app.Words(err)})
		return
	}
	since := h.Complete
	// The history begins later than this command: what was seen here reaches
	// farther back.
	if start.Before(since) {
		since = start
	}
	s.past.Store(&past{Began: start.UnixMilli(), Since: since.UnixMilli(), Stream: h.Stream})
	s.board.Recall(h.Terms(), since)
}

// known waits until all groups are known, or those that the user may read. It
// reports false if the command ended before.
func (s *server) known(ctx context.Context) bool {
	d := s.board.Since(0)
	for !d.State.Complete && d.State.Failure == "" {
		select {
		case <-s.board.After(d.Seq):
			d = s.board.Since(d.Seq)
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// completed waits until all groups are known, which may never be. It reports
// false if the command ended before. It looks now and then: each renewal of any
// group would wake it.
func (s *server) completed(ctx context.Context) bool {
	look := time.NewTicker(pulse)
	defer look.Stop()
	for !s.board.State().Complete {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// history reads what advisories a stream has kept since then.
func (s *server) history(ctx context.Context, since time.Time) (archive.History, error) {
	js, err := s.session.JetStream()
	if err != nil {
		return archive.History{}, err
	}
	return archive.Recent(ctx, js, s.session.Bucket, since, maxAdvisories)
}
