package base_test

import (
	"context"
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// memory is a System of registers in a map. A real system compares and writes
// in one atomic step.
type memory map[string]store.Entry

func (m memory) Read(_ context.Context, keys []string) (found []store.Entry, err error) {
	for _, key := range keys {
		if e, ok := m[key]; ok {
			found = append(found, e)
		}
	}
	return found, nil
}

func (m memory) List(context.Context, string) (all []store.Entry, err error) {
	for _, e := range m {
		all = append(all, e)
	}
	return all, nil
}

func (m memory) Swap(_ context.Context, w store.Write) (uint64, error) {
	if m[w.Key].Revision != w.Expected {
		return 0, fmt.Errorf("%w: key %q", store.ErrConflict, w.Key)
	}
	m[w.Key] = store.Entry{Key: w.Key, Revision: w.Expected + 1, Value: w.Value, Tombstone: w.Tombstone}
	return w.Expected + 1, nil
}

// A system with three methods becomes a store with watches.
func Example() {
	s, err := base.New(memory{}, base.Options{Name: "memory"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() //nolint:errcheck // it has no connection
	ctx := context.Background()
	fmt.Println(s.CompareAndSwap(ctx, store.Write{Key: "reports", Value: []byte("host-1")}))
	e, err := s.Get(ctx, "reports")
	fmt.Println(string(e.Value), err)
	_, err = s.Get(ctx, "no key")
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// host-1 <nil>
	// invalid key or value: key "no key"
}
