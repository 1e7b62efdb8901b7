package once_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A clocked store reports when it stored an entry.
type clocked struct {
	store.Store

	at       time.Time
	revision uint64 // 0: that of the entry
	err      error
}

func (s *clocked) StoredAt(ctx context.Context, key string) (time.Time, uint64, error) {
	e, err := s.Get(ctx, key)
	return s.at, cmp.Or(s.revision, e.Revision), errors.Join(s.err, err)
}

// noteAs writes another candidate's note of a run at a key.
func noteAs(t *testing.T, s store.Store, key string, begin time.Time) {
	t.Helper()
	e, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	value, err := inspect.NoteRun(e, inspect.Run{Begin: begin, ID: "b", Term: 5})
	if err == nil {
		_, err = s.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: e.Revision, Value: value})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// registerOf returns the register of candidate a for the minute that begins at
// begin.
func registerOf(s store.Store, begin time.Time) *once.Register {
	return &once.Register{Store: s, Group: "g", ID: "a", Period: once.Every(time.Minute).At(begin), Timeout: time.Second}
}

func TestNoteOfThePeriodOrALaterOneCounts(t *testing.T) {
	begin := time.UnixMilli(600_000)
	for millis, want := range map[int64]bool{540_000: false, 599_999: false, 600_000: true, 660_000: true} {
		s := memstore.New()
		noteAs(t, s, inspect.RanKey("g"), time.UnixMilli(millis))
		by, err := registerOf(s, begin).Note(t.Context(), 7)
		if (by != nil) != want || err != nil {
			t.Errorf("a run that began at %d counts: %+v, error %v", millis, by, err)
		}
	}
}

// Hosts whose clocks are apart by less than a period exclude one another. An
// entry that is older than the claim comes from a copy that lags, and shows
// nothing of the clocks.
func TestHostThatIsMoreThanAPeriodAheadNotesNothing(t *testing.T) {
	const term = 7
	begin := time.UnixMilli(600_000)
	type answer struct {
		server   int64
		revision uint64
	}
	for a, want := range map[answer]error{
		{600_000, term}: nil, {540_000, term}: nil, {999_000, term}: nil,
		{539_999, term}: once.ErrClockAhead, {539_999, term + 1}: once.ErrClockAhead, {539_999, term - 1}: nil,
	} {
		s := &clocked{Store: memstore.New(), at: time.UnixMilli(a.server), revision: a.revision}
		r := registerOf(s, begin)
		r.StoredAt = s.StoredAt
		_, err := r.Note(t.Context(), term)
		if !errors.Is(err, want) {
			t.Errorf("stored at %+v: error %v, want %v", a, err, want)
		}
		if e, err := s.Get(t.Context(), inspect.RanKey("g")); (e.Revision == 0) != (want != nil) || err != nil {
			t.Errorf("stored at %+v: entry %+v, error %v", a, e, err)
		}
	}
}

// The clocks of hosts may differ by less than a period, so no host notes a run
// that is farther ahead of the server.
func TestNoteThatNoHostCanHaveWrittenDoesNotCount(t *testing.T) {
	stored := time.UnixMilli(6_000_000)
	for name, c := range map[string]struct {
		ahead time.Duration
		clock clocked
		want  bool
	}{
		"of the present":                  {0, clocked{at: stored}, true},
		"a period ahead":                  {time.Minute, clocked{at: stored}, true},
		"more than a period ahead":        {time.Minute + time.Millisecond, clocked{at: stored}, false},
		"centuries ahead":                 {1e6 * time.Hour, clocked{at: stored}, false},
		"of another entry":                {time.Hour, clocked{at: stored, revision: 99}, true},
		"of a store without times":        {time.Hour, clocked{}, true},
		"of a server that does not reply": {time.Hour, clocked{at: stored, err: context.DeadlineExceeded}, true},
	} {
		c.clock.Store = memstore.New()
		noteAs(t, c.clock.Store, inspect.ControlKey("g"), stored.Add(c.ahead))
		r := registerOf(c.clock.Store, stored)
		r.StoredAt = c.clock.StoredAt
		warned := false
		r.Warn = func(string) { warned = true }
		if by, err := r.Note(t.Context(), 7); (by != nil) != c.want || err != nil || warned == c.want {
			t.Errorf("a run %s counts: %+v, error %v, warned %v", name, by, err, warned)
		}
	}
}

// A turnstile calls between before the write of a key, once.
type turnstile struct {
	store.Store

	key     string
	between func()
	once    sync.Once
}

func (s *turnstile) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key == s.key && s.between != nil {
		s.once.Do(s.between)
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Hosts of versions before the run's own key read and write the control record
// alone, and hosts of later versions the run's own key alone.
func TestRunAtEitherKeyIsStartedOnce(t *testing.T) {
	const control, own = "_ctl.g", "_ctl._ran.g"
	begin := time.UnixMilli(6_000_000)
	ran := func(t *testing.T, s store.Store, key string) string {
		t.Helper()
		e, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := inspect.ReadControl(e); c.Ran != nil {
			return c.Ran.ID
		}
		return ""
	}
	for name, c := range map[string]struct {
		before  string // where another host has noted the run
		between string // before the write of which key another host notes it in the control record
		want    string // the host that started the run, if not this host
		noted   string // at the run's own key, then
	}{
		"nobody before":                      {noted: "a"},
		"an earlier version before":          {before: control, want: "b"},
		"a later version before":             {before: own, want: "b", noted: "b"},
		"an earlier version before any note": {between: own, want: "b", noted: "a"},
		"an earlier version between":         {between: control, want: "b", noted: "a"},
	} {
		s := &turnstile{Store: memstore.New(), key: c.between}
		s.between = func() { noteAs(t, s.Store, control, begin) }
		if c.before != "" {
			noteAs(t, s.Store, c.before, begin)
		}
		by, err := registerOf(s, begin).Note(t.Context(), 7)
		if (by == nil) != (c.want == "") || err != nil {
			t.Errorf("%s: noted by %+v, error %v", name, by, err)
		}
		if got := ran(t, s.Store, own); got != c.noted {
			t.Errorf("%s: at its own key the run is of %q, want %q", name, got, c.noted)
		}
		if got, want := ran(t, s.Store, control), cmp.Or(c.want, "a"); got != want && c.before != own {
			t.Errorf("%s: in the control record the run is of %q, want %q", name, got, want)
		}
	}
}

// A mute store does not acknowledge writes of a key at first, and loses some of
// them.
type mute struct {
	store.Store

	key   string
	fails int  // how often
	loses bool // the first
}

func (s *mute) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key != s.key || s.fails == 0 {
		return s.Store.CompareAndSwap(ctx, w)
	}
	s.fails--
	if s.loses {
		s.loses = false
		return 0, fmt.Errorf("%w: lost", store.ErrUnknown)
	}
	if _, err := s.Store.CompareAndSwap(ctx, w); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%w: no acknowledgement", store.ErrUnknown)
}

// The register would otherwise take its own note for another candidate's, and
// the run would be lost.
func TestNoteIsRepeatedUntilItsOutcomeIsKnown(t *testing.T) {
	begin := time.UnixMilli(6_000_000)
	for _, key := range []string{inspect.RanKey("g"), inspect.ControlKey("g")} {
		for _, loses := range []bool{true, false} {
			s := &mute{Store: memstore.New(), key: key, fails: 2, loses: loses}
			if by, err := registerOf(s, begin).Note(t.Context(), 7); by != nil || err != nil || s.fails != 0 {
				t.Errorf("%s, loses %v: noted by %+v, error %v, %d writes left", key, loses, by, err, s.fails)
			}
			other := registerOf(s, begin)
			other.ID = "c"
			if by, err := other.Note(t.Context(), 8); err != nil || by == nil || by.ID != "a" {
				t.Errorf("%s, loses %v: the other finds %+v, error %v", key, loses, by, err)
			}
		}
	}
}
