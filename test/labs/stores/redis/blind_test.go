package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// blind keeps registers in Redis as rbroggi's redisleasestore keeps leases: it
// creates with a condition, and updates by a GET that it judges and a SET that
// has none. Its revisions are honest, by INCR.
type blind struct{ rdb *redis.Client }

func (b blind) Get(ctx context.Context, key string) (store.Entry, error) {
	record, err := b.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return store.Entry{Key: key}, nil
	}
	e := store.Entry{Key: key}
	if err == nil {
		revision, value, _ := strings.Cut(record, " ")
		e.Value = []byte(value)
		_, err = fmt.Sscan(revision, &e.Revision)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	return e, nil
}

func (b blind) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	e, err := b.Get(ctx, w.Key)
	if err != nil {
		return 0, err
	}
	if e.Revision != w.Expected {
		return 0, fmt.Errorf("%w: revision %d", store.ErrConflict, e.Revision)
	}
	rev, err := b.rdb.Incr(ctx, "revision").Uint64()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	record := fmt.Sprintf("%d %s", rev, w.Value)
	if w.Expected != 0 {
		err = b.rdb.Set(ctx, w.Key, record, 0).Err()
	} else if err = b.rdb.SetArgs(ctx, w.Key, record, redis.SetArgs{Mode: "NX"}).Err(); errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("%w: it was created meanwhile", store.ErrConflict)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return rev, nil
}

// A store that passes each test of single calls, and loses an update where two
// write at once. Most turns of its clients meet nobody, so it takes some
// hundred writes.
func TestBlindUpdatesAreCondemned(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	var stores []store.Store
	for range 12 {
		stores = append(stores, blind{dial(t, srv.Addr())})
	}
	tally, err := histories.Trial{Judge: histories.Judge{CurrentConflicts: true}, Writes: 300}.WithoutFaults(t.Context(), 5, stores)
	t.Log(tally)
	if err == nil || !strings.Contains(err.Error(), "no order explains") {
		t.Errorf("the verdict: %v", err)
	}
}
