package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// counted is a source that counts its reads, and whose answers a test may hold
// back or replace.
type counted struct {
	polled
	mu    sync.Mutex
	reads int
	read  func(keys []string) ([]store.Entry, error) // nil: as the registers are
}

func (c *counted) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	c.mu.Lock()
	c.reads++
	read := c.read
	c.mu.Unlock()
	if read != nil {
		return read(keys)
	}
	return c.polled.Read(ctx, keys)
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func (c *counted) answer(read func(keys []string) ([]store.Entry, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = read
}

// heard collects the deliveries of a watch.
type heard struct {
	mu  sync.Mutex
	all []store.Entry
}

func (h *heard) deliver(e store.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func (h *heard) last() store.Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return store.Entry{}
	}
	return h.all[len(h.all)-1]
}

func put(t *testing.T, st *memstore.Store, key string, expected uint64) uint64 {
	t.Helper()
	rev, err := st.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: expected, Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func watch(t *testing.T, f *feed.Feed, keys ...string) *heard {
	t.Helper()
	h := &heard{}
	stop, err := f.Watch(t.Context(), keys, h.deliver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return h
}

func watchPattern(t *testing.T, f *feed.Feed, pattern string) *heard {
	t.Helper()
	h := &heard{}
	stop, err := f.WatchPattern(t.Context(), pattern, h.deliver, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return h
}

func TestAChangeIsFoundWithinHalfAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeat = 400 * time.Millisecond
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		f.Pace(time.Minute) // the shortest holds
		f.Pace(heartbeat)
		f.Pace(0)
		h := watch(t, f, "a", "b")
		rev := uint64(0)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at every phase of the looks
			rev = put(t, src.lab.st, "a", rev)
			time.Sleep(heartbeat / 2)
			synctest.Wait()
			if h.last().Revision != rev {
				t.Fatalf("write %d was not heard within half a heartbeat", i)
			}
		}
	})
}

// A pace belongs to a watch: a program may keep observing by the store after it
// has stopped its election.
func TestAPaceEndsWithTheWatchOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{Every: time.Second})
		defer f.Close()
		reads := func() int {
			synctest.Wait()
			before := src.count()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			return src.count() - before
		}
		watch(t, f, "b")
		f.Pace(100*time.Millisecond, "a")
		if n := reads(); n < 9 || n > 11 {
			t.Errorf("nobody watches the key of the pace, and there were %d reads in 10 s; a look each second makes 10", n)
		}
		for range 2 { // the second watch has the pace that was set before the first
			stop, err := f.Watch(t.Context(), []string{"a", "_ctl.a"}, func(store.Entry) {})
			if err != nil {
				t.Fatal(err)
			}
			if n := reads(); n < 240 || n > 260 {
				t.Errorf("by the pace of a key that is watched there were %d reads in 10 s; a look each 40 ms makes 250", n)
			}
			stop()
			if n := reads(); n < 9 || n > 11 {
				t.Errorf("after the end of its watch there were %d reads in 10 s; a look each second makes 10", n)
			}
		}
		// That of a request without a key is everybody's.
		f.Pace(500*time.Millisecond, "")
		if n := reads(); n < 49 || n > 51 {
			t.Errorf("by a pace of no key there were %d reads in 10 s; a look each 200 ms makes 50", n)
		}
	})
}

func TestManyWatchesCostOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{Every: time.Second})
		defer f.Close()
		for i := range 100 {
			watch(t, f, fmt.Sprint("g", i), fmt.Sprint("_ctl.g", i))
		}
		synctest.Wait()
		before := src.count()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := src.count() - before; n < 9 || n > 11 {
			t.Errorf("100 watches made %d reads in 10 s; a look each second makes 10", n)
		}
	})
}

func TestNewsMakeLooksRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{st: memstore.New()}
		counting := &countedNews{followed: followed{polled: polled{l}, cut: make(chan struct{})}}
		f := feed.New(counting, feed.Options{Every: 100 * time.Millisecond})
		defer f.Close()
		watch(t, f, "a")
		synctest.Wait()
		before := counting.count()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := counting.count() - before; n < 5 || n > 20 {
			t.Errorf("%d reads in 10 s beside the news; one a second is wanted", n)
		}
	})
}

// countedNews is a source with news that counts its reads.
type countedNews struct {
	followed
	mu    sync.Mutex
	reads int
}

func (c *countedNews) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.followed.Read(ctx, keys)
}

func (c *countedNews) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func TestADeletedKeyIsShownAsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		rev := put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		synctest.Wait()
		if h.last().Revision != rev {
			t.Fatalf("the watch begins with %+v", h.last())
		}
		src.lab.st.Purge("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.last().Key != "a" || h.last().Revision != 0 {
			t.Errorf("after the key's end the watch shows %+v", h.last())
		}
	})
}

func TestAReadDoesNotUndoNewerNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		news := <-src.news
		synctest.Wait()
		// The answer of a read that began before the write comes after its
		// news.
		answered, hold := make(chan struct{}), make(chan struct{})
		src.answer(func([]string) ([]store.Entry, error) {
			close(answered)
			<-hold
			return []store.Entry{{Key: "a", Revision: 1, Value: []byte("v")}}, nil
		})
		news.Changed("a")
		<-answered
		src.answer(nil)
		news.Entry(store.Entry{Key: "a", Revision: 2, Value: []byte("w")})
		close(hold)
		synctest.Wait()
		if h.last().Revision != 2 {
			t.Errorf("the watch shows revision %d after the news of 2", h.last().Revision)
		}
		news.Entry(store.Entry{Key: "a", Revision: 1, Value: []byte("v")}) // late
		synctest.Wait()
		if h.last().Revision != 2 {
			t.Errorf("late news of revision 1 are delivered after 2")
		}
	})
}

// Absence has no revision: if one of two answers is that the key is gone, only
// the register itself shows which is newer.
func TestAReadDoesNotBringBackADeletedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		rev := put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		wide := watchPattern(t, f, ">")
		news := <-src.news
		synctest.Wait()
		answered, hold := make(chan struct{}), make(chan struct{})
		src.answer(func([]string) ([]store.Entry, error) {
			close(answered)
			<-hold
			return []store.Entry{{Key: "a", Revision: rev, Value: []byte("v")}}, nil
		})
		news.Changed("a")
		<-answered
		src.answer(nil)
		src.lab.st.Purge("a")
		absent := func([]string) ([]store.Entry, error) { return nil, nil }
		if err := news.Reread([]string{"a"}, absent); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		told, before := h.count(), src.count()
		close(hold)
		synctest.Wait()
		if n := h.count(); n != told || h.last().Revision != 0 || wide.last().Revision != 0 {
			t.Errorf("the key is gone, and the watch is told of %+v, that of all keys of %+v", h.last(), wide.last())
		}
		if n := src.count() - before; n != 1 {
			t.Errorf("of two answers that contradict each other %d reads come; one settles it", n)
		}
		news.Entry(store.Entry{Key: "a", Revision: rev, Value: []byte("v")}) // late
		synctest.Wait()
		if n := h.count(); n != told || wide.last().Revision != 0 {
			t.Errorf("the key is gone, and late news bring %+v back, for all keys %+v", h.last(), wide.last())
		}
	})
}

func TestADeletionIsNotLostToAnAnswerThatCameBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		rev := put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		wide := watchPattern(t, f, ">")
		news := <-src.news
		synctest.Wait()
		began := time.Now()
		// The newer state comes while the follower reads, and is gone before
		// the answer is made.
		err := news.Reread([]string{"a"}, func([]string) ([]store.Entry, error) {
			news.Entry(store.Entry{Key: "a", Revision: rev + 1, Value: []byte("w")})
			src.lab.st.Purge("a")
			return nil, nil
		})
		synctest.Wait()
		if err != nil || h.last().Revision != 0 || wide.last().Revision != 0 || time.Since(began) > 0 {
			t.Errorf("%v after the key's end the watch shows %+v, that of all keys %+v; %v", time.Since(began), h.last(), wide.last(), err)
		}
	})
}

func TestAListDoesNotBringBackADeletedKeyNorHideOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		old := put(t, src.lab.st, "old", 0)
		h := watchPattern(t, f, ">")
		news := <-src.news
		synctest.Wait()
		listed, hold := make(chan struct{}), make(chan struct{})
		src.list = func(ctx context.Context) ([]store.Entry, error) {
			src.list = nil
			entries, err := src.polled.List(ctx, ">")
			close(listed)
			<-hold
			return entries, err
		}
		news.Begun()
		<-listed
		src.lab.st.Purge("old")
		read := func(keys []string) ([]store.Entry, error) { return src.polled.Read(t.Context(), keys) }
		if err := news.Reread([]string{"old"}, read); err != nil {
			t.Fatal(err)
		}
		fresh := put(t, src.lab.st, "new", 0)
		if err := news.Reread([]string{"new"}, read); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		src.lab.st.Purge("new") // of which no news come
		close(hold)
		synctest.Wait()
		var heard []string
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range h.all {
			if line := fmt.Sprint(e.Key, " ", e.Revision); len(heard) == 0 || heard[len(heard)-1] != line {
				heard = append(heard, line)
			}
		}
		want := []string{fmt.Sprint("old ", old), "old 0", fmt.Sprint("new ", fresh), "new 0"}
		if !slices.Equal(heard, want) {
			t.Errorf("the watch was told of %q, not of %q", heard, want)
		}
	})
}

// An interruption may meet the news before they begin, and no read at all.
func TestNewsThatFailBeforeTheyBeginAreAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &halting{counted: counted{polled: polled{&lab{st: memstore.New()}}}, fail: make(chan struct{})}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		synctest.Wait()
		before := h.count()
		close(src.fail)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := h.count(); n != before+1 {
			t.Errorf("%d deliveries, then %d: the present state is due once more", before, n)
		}
	})
}

// halting is a source whose news fail once, before they begin.
type halting struct {
	counted
	tries int
	fail  chan struct{}
}

func (s *halting) Follow(ctx context.Context, news *feed.News) error {
	<-s.fail
	s.tries++
	if s.tries == 1 {
		return errors.New("cut")
	}
	news.Begun()
	<-ctx.Done()
	return ctx.Err()
}

// pushing is a source whose news a test brings.
type pushing struct {
	counted
	news chan *feed.News
	list func(context.Context) ([]store.Entry, error) // nil: as the registers are
}

func (p *pushing) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	if p.list != nil {
		return p.list(ctx)
	}
	return p.counted.List(ctx, pattern)
}

func (p *pushing) Follow(ctx context.Context, news *feed.News) error {
	news.Begun()
	p.news <- news
	<-ctx.Done()
	return ctx.Err()
}

func TestWatchReportsWhyItCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		denied := fmt.Errorf("%w: denied", store.ErrPermanent)
		src.answer(func([]string) ([]store.Entry, error) { return []store.Entry{{Key: "b", Revision: 7}}, denied })
		delivered := false
		_, err := f.Watch(t.Context(), []string{"a", "b"}, func(store.Entry) { delivered = true })
		if !errors.Is(err, denied) {
			t.Errorf("the watch of a key that cannot be read: %v", err)
		}
		// The watch delivers nothing of the key that can be read either: it has
		// not started.
		h := watch(t, f, "b")
		synctest.Wait()
		if delivered || h.last().Revision != 7 {
			t.Errorf("delivered %v to the watch that failed; the other was told of %+v", delivered, h.last())
		}
	})
}

func TestAClosedFeedWatchesNothing(t *testing.T) {
	src := &counted{polled: polled{&lab{st: memstore.New()}}}
	f := feed.New(src, feed.Options{Every: time.Millisecond})
	var mu sync.Mutex
	var states []store.ConnState
	f.OnConnState(func(s store.ConnState) { mu.Lock(); states = append(states, s); mu.Unlock() })
	h := watch(t, f, "a")
	f.Close()
	f.Close()
	put(t, src.lab.st, "a", 0)
	if _, err := f.Watch(t.Context(), []string{"a"}, func(store.Entry) {}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a watch of a closed feed: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if h.last().Revision != 0 || f.ConnState() != store.Closed || len(states) != 1 || states[0] != store.Closed {
		t.Errorf("after Close: heard %+v, state %v, told %v", h.last(), f.ConnState(), states)
	}
}

// The permanent refusal of one key does not interrupt the other keys, and does
// not mean that the connection is lost.
func TestAKeyThatIsRefusedLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{st: memstore.New()}
		src := &counted{polled: polled{l}}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, l.st, "g.good", 0)
		bad := put(t, l.st, "bad", 0)
		good, both, all := watch(t, f, "g.good"), watch(t, f, "bad", "g.good"), watchPattern(t, f, "g.*")
		synctest.Wait()
		src.answer(func(keys []string) ([]store.Entry, error) {
			keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "bad" })
			entries, err := src.polled.Read(t.Context(), keys)
			return entries, errors.Join(err, fmt.Errorf("%w: it is refused", store.ErrPermanent))
		})
		l.mu.Lock()
		l.down = true
		l.mu.Unlock()
		time.Sleep(10 * time.Second)
		l.mu.Lock()
		l.down = false
		l.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if c := f.ConnState(); c != store.Connected {
			t.Errorf("where one key is refused, and another is read, the connection is %v", c)
		}
		told, shown, reads := good.count(), all.count(), src.count()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := good.count() - told; n != 0 {
			t.Errorf("the other key's watch was told of the present state %d times more", n)
		}
		if n := all.count() - shown; n != 0 {
			t.Errorf("the watch of a pattern was told of the present state in %d entries more", n)
		}
		if n := src.count() - reads; n > 11 {
			t.Errorf("%d reads in 10 s; a look each second makes 10", n)
		}
		// That somebody asks for the key alone concerns nobody else.
		told, shown = good.count(), all.count()
		if _, err := f.Watch(t.Context(), []string{"bad"}, func(store.Entry) {}); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("a watch of the key that is refused: %v", err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := good.count() - told + all.count() - shown; n != 0 {
			t.Errorf("when another watch of the key began, the other watches were told of %d states more", n)
		}
		told = both.count()
		src.answer(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e := both.last(); e.Key != "bad" || e.Revision != bad || both.count() != told+1 {
			t.Errorf("when it can be read again, its watch is told of %d states more, the last of which is %+v", both.count()-told, e)
		}
	})
}

// severed is a source whose client a program closes under the store.
type severed struct {
	polled
	closed atomic.Bool
}

func (s *severed) err() error {
	if s.closed.Load() {
		return fmt.Errorf("%w: the client", store.ErrClosed)
	}
	return nil
}

func (s *severed) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.polled.Read(ctx, keys)
}

func (s *severed) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.polled.List(ctx, pattern)
}

// cutOff is a severed source with news, which end with the client.
type cutOff struct {
	severed
	end chan struct{}
}

func (s *cutOff) Follow(ctx context.Context, news *feed.News) error {
	if err := s.err(); err != nil {
		return err
	}
	news.Begun()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.end:
		return s.err()
	}
}

// An observation ends with the connection, and learns of its end by this alone.
func TestTheEndOfTheClientIsTheEndOfTheConnection(t *testing.T) {
	begin := map[string]func(*testing.T, *feed.Feed) error{
		"nobody but a listener": func(*testing.T, *feed.Feed) error { return nil },
		"keys": func(t *testing.T, f *feed.Feed) error {
			_, err := f.Watch(t.Context(), []string{"a"}, func(store.Entry) {})
			return err
		},
		"a pattern": func(t *testing.T, f *feed.Feed) error {
			_, err := f.WatchPattern(t.Context(), ">", func(store.Entry) {}, func(err error) {
				if err != nil {
					t.Errorf("the present state is told to be denied: %v", err)
				}
			})
			return err
		},
	}
	for what, watch := range begin {
		for _, follows := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/news %v", what, follows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := &lab{st: memstore.New()}
					follower := &cutOff{severed: severed{polled: polled{l}}, end: make(chan struct{})}
					var src feed.Source = follower
					if !follows {
						src = &follower.severed
					}
					f := feed.New(src, feed.Options{})
					defer f.Close()
					var mu sync.Mutex
					var states []store.ConnState
					f.OnConnState(func(s store.ConnState) { mu.Lock(); states = append(states, s); mu.Unlock() })
					if err := watch(t, f); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					follower.closed.Store(true)
					close(follower.end)
					time.Sleep(time.Minute)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					if !slices.Equal(states, []store.ConnState{store.Closed}) || f.ConnState() != store.Closed {
						t.Errorf("told of %v, and the state is %v", states, f.ConnState())
					}
					for what, watch := range begin {
						if err := watch(t, f); !errors.Is(err, store.ErrClosed) && what != "nobody but a listener" {
							t.Errorf("a watch of %s that begins after it: %v", what, err)
						}
					}
				})
			})
		}
	}
}

// deaf is a source whose user may not have its news.
type deaf struct{ polled }

func (deaf) Follow(context.Context, *feed.News) error {
	return fmt.Errorf("%w: denied", store.ErrPermanent)
}

func TestDeniedNewsDoNotCountAsALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{st: memstore.New()}
		f := feed.New(deaf{polled{l}}, feed.Options{})
		defer f.Close()
		var mu sync.Mutex
		var states []store.ConnState
		f.OnConnState(func(s store.ConnState) { mu.Lock(); states = append(states, s); mu.Unlock() })
		h := watch(t, f, "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if len(states) != 0 {
			t.Errorf("without news the connection is reported as %v", states)
		}
		mu.Unlock()
		rev := put(t, l.st, "a", 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.last().Revision != rev {
			t.Error("without news nothing is found by looking")
		}
		l.mu.Lock()
		l.down = true
		l.mu.Unlock()
		time.Sleep(10 * time.Second)
		l.mu.Lock()
		l.down = false
		l.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(states) != 2 || states[0] != store.Disconnected || states[1] != store.Connected {
			t.Errorf("after an outage the states were %v", states)
		}
	})
}

func TestTheBeginningOfNewsRepeatsTheCurrentState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a", "b")
		news := <-src.news
		synctest.Wait()
		before := h.count()
		news.Begun() // as of a client that connected again by itself
		synctest.Wait()
		if n := h.count() - before; n != 2 {
			t.Errorf("after the beginning of news the watch of two keys was told of %d states", n)
		}
	})
}

// A program closes what its functions use after the store.
func TestCloseWaitsForADeliveryThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counted{polled: polled{&lab{st: memstore.New()}}}
		f := feed.New(src, feed.Options{Every: time.Second})
		var busy atomic.Bool
		stop, err := f.Watch(t.Context(), []string{"a"}, func(e store.Entry) {
			if e.Revision == 0 {
				return // the current state
			}
			busy.Store(true)
			defer busy.Store(false)
			time.Sleep(time.Minute)
		})
		if err != nil {
			t.Fatal(err)
		}
		put(t, src.lab.st, "a", 0)
		for !busy.Load() {
			time.Sleep(time.Second)
		}
		f.Close()
		if busy.Load() {
			t.Error("it is closed, and calls a function still")
		}
		stop()
	})
}
