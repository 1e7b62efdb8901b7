package feed_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A read that a follower makes by itself counts like a read of the Feed.
func TestAFollowersReadIsTheFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a", "b")
		news := <-src.news
		synctest.Wait()
		reread := func(read func(keys []string) ([]store.Entry, error), keys ...string) error {
			t.Helper()
			err := news.Reread(keys, read)
			synctest.Wait()
			return err
		}
		shows := func(what string, entries []store.Entry, want store.Entry) {
			t.Helper()
			var asked []string
			before := src.count()
			err := reread(func(keys []string) ([]store.Entry, error) { asked = keys; return entries, nil }, "a", "unwatched")
			if last := h.last(); err != nil || last.Key != "a" || last.Revision != want.Revision || src.count() != before {
				t.Errorf("%s: the watch shows %+v after %d more reads of the Feed, %v", what, last, src.count()-before, err)
			}
			if !slices.Equal(asked, []string{"a"}) {
				t.Errorf("%s: read were %q", what, asked)
			}
		}
		newer := store.Entry{Key: "a", Revision: 9, Value: []byte("w")}
		shows("a newer state", []store.Entry{newer}, newer)
		shows("a key that is gone", nil, store.Entry{})
		shows("it is back", []store.Entry{newer}, newer)
		older := store.Entry{Key: "a", Revision: 3, Value: []byte("v")}
		shows("registers that were made anew", []store.Entry{older}, older)

		// An answer that comes after newer news undoes nothing.
		_ = reread(func([]string) ([]store.Entry, error) {
			news.Entry(newer)
			return []store.Entry{older}, nil
		}, "a")
		if h.last().Revision != newer.Revision {
			t.Errorf("an older answer shows after the news: %+v", h.last())
		}
		if err := reread(func([]string) ([]store.Entry, error) { panic("nobody watches it") }, "unwatched"); err != nil {
			t.Error(err)
		}
	})
}

// Where the follower fails to read, the Feed does.
func TestFeedReadsKeysThatAFollowerCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		rev := put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		news := <-src.news
		synctest.Wait()
		rev = put(t, src.lab.st, "a", rev)
		failure := fmt.Errorf("%w: cut", store.ErrTransient)
		if err := news.Reread([]string{"a"}, func([]string) ([]store.Entry, error) { return nil, failure }); !errors.Is(err, failure) {
			t.Errorf("Reread: %v", err)
		}
		synctest.Wait()
		if h.last().Revision != rev {
			t.Errorf("the watch shows %+v, and the register stands at %d", h.last(), rev)
		}
	})
}

// Revisions repeat where a store lost its state, and where foreign content has
// no revision (store/redisstore): the content of a register is then the only
// sign of a change.
func TestOtherContentOfTheSameRevisionIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		wide := watchPattern(t, f, ">")
		news := <-src.news
		synctest.Wait()
		answer := func(e store.Entry) {
			t.Helper()
			if err := news.Reread([]string{"a"}, func([]string) ([]store.Entry, error) { return []store.Entry{e}, nil }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, e := range []store.Entry{
			{Key: "a", Revision: 7, Value: []byte("one")},
			{Key: "a", Revision: 7, Value: []byte("two")},
			{Key: "a", Revision: 7, Value: []byte("two"), Tombstone: true},
		} {
			answer(e)
			if last, all := h.last(), wide.last(); !reflect.DeepEqual(last, e) || !reflect.DeepEqual(all, e) {
				t.Errorf("the register stands at %+v, and the watch shows %+v, that of all keys %+v", e, last, all)
			}
			told := h.count()
			answer(e)
			if n := h.count() - told; n != 0 {
				t.Errorf("%+v, which is read once more, is delivered %d times more", e, n)
			}
		}
	})
}

// Of two answers with one revision only the order shows which is newer, and two
// concurrent reads have no known order.
func TestTwoReadsAtOnceOfOneRevisionAreSettledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pushing{counted: counted{polled: polled{&lab{st: memstore.New()}}}, news: make(chan *feed.News, 1)}
		f := feed.New(src, feed.Options{})
		defer f.Close()
		put(t, src.lab.st, "a", 0)
		h := watch(t, f, "a")
		news := <-src.news
		synctest.Wait()
		one, two := store.Entry{Key: "a", Revision: 7, Value: []byte("one")}, store.Entry{Key: "a", Revision: 7, Value: []byte("two")}
		src.answer(func([]string) ([]store.Entry, error) { return []store.Entry{two}, nil })
		before, began := src.count(), time.Now()
		// The first read shows the state from before the second, and ends after
		// it.
		err := news.Reread([]string{"a"}, func([]string) ([]store.Entry, error) {
			return []store.Entry{one}, news.Reread([]string{"a"}, func([]string) ([]store.Entry, error) { return []store.Entry{two}, nil })
		})
		synctest.Wait()
		if n := src.count() - before; err != nil || n != 1 || time.Since(began) > 0 {
			t.Errorf("of two answers that contradict each other %d reads come within %v; one settles it; %v", n, time.Since(began), err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if last := h.all[len(h.all)-1]; !reflect.DeepEqual(last, two) || slices.ContainsFunc(h.all, func(e store.Entry) bool { return reflect.DeepEqual(e, one) }) {
			t.Errorf("the register stands at %+v, and the watch was told of %+v", two, h.all)
		}
	})
}
