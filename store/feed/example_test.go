package feed_test

import (
	"context"
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// registers can be read. Those of a real system change.
type registers map[string]store.Entry

func (r registers) Read(_ context.Context, keys []string) (found []store.Entry, err error) {
	for _, key := range keys {
		if e, ok := r[key]; ok {
			found = append(found, e)
		}
	}
	return found, nil
}

func (r registers) List(_ context.Context, pattern string) (found []store.Entry, err error) {
	for key, e := range r {
		if store.MatchPattern(pattern, key) {
			found = append(found, e)
		}
	}
	return found, nil
}

// A Source that can be read can also be watched.
func Example() {
	f := feed.New(registers{"reports": {Key: "reports", Revision: 7}}, feed.Options{})
	defer f.Close()
	seen := make(chan store.Entry, 1)
	stop, err := f.Watch(context.Background(), []string{"reports"}, func(e store.Entry) { seen <- e })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	e := <-seen
	fmt.Println(e.Key, e.Revision)
	// Output: reports 7
}
