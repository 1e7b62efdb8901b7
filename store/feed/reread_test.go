package feed_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// What a follower reads by itself counts as what the Feed reads.
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
func TestWhatAFollowerCannotReadIsReadByTheFeed(t *testing.T) {
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
