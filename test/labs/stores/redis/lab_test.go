package redis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// dial returns a client as most programs make one, with its retries on.
func dial(t testing.TB, addr string, tweaks ...func(*redis.Options)) *redis.Client {
	t.Helper()
	// In their automatic mode they are a data race (go-redis 9.23, initConn).
	opts := &redis.Options{Addr: addr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	for _, tweak := range tweaks {
		tweak(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// over returns a store on the client, closed when the test ends.
func over(t testing.TB, rdb redis.UniversalClient, opts redisstore.Options) *redisstore.Store {
	t.Helper()
	st, err := redisstore.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// put writes the key over the expected revision, which has to be applied.
func put(t testing.TB, st store.Store, key string, expected uint64, value string) uint64 {
	t.Helper()
	return trial.Must(t, st, store.Write{Key: key, Expected: expected, Value: []byte(value)})
}

// replicated is put by a store that waits for a replica. On a busy machine a
// replica may take longer than the store waits. The write is unknown then, and
// shown as soon as the replica has it.
func replicated(t testing.TB, st store.Store, key string, expected uint64, value string) (rev uint64) {
	t.Helper()
	rev, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: key, Expected: expected, Value: []byte(value)})
	switch store.Classify(err) {
	case store.OK:
	case store.Unknown:
		trial.Await(t, "the replica has the write", func() bool {
			e, err := st.Get(trial.Within(t), key)
			rev = e.Revision
			return err == nil && string(e.Value) == value
		})
	default:
		t.Fatalf("writing %s over %d: %v", key, expected, err)
	}
	return rev
}

// inDatabase has a client use a database of its server.
func inDatabase(n int) func(*redis.Options) { return func(o *redis.Options) { o.DB = n } }
