package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	var names atomic.Int64
	storetest.Run(t, func(testing.TB) storetest.Harness {
		prefix := fmt.Sprintf("conformance%d:", names.Add(1))
		return storetest.Harness{
			Open: func(t testing.TB) store.Store {
				st := over(t, dial(t, srv.Addr()), redisstore.Options{Prefix: prefix})
				st.Pace(200 * time.Millisecond) // no news tell of a foreign deletion
				return st
			},
			Delete: func(key string) error { _, err := srv.Say("DEL", prefix+key); return err },
			Put:    func(key string, value []byte) error { _, err := srv.Say("SET", prefix+key, string(value)); return err },
			Purge:  func(key string) error { _, err := srv.Say("UNLINK", prefix+key); return err },
			Interrupt: func() error {
				srv.Kill()
				srv.Run()
				return nil
			},
		}
	}, storetest.Caps{
		MaxValue:  redisstore.MaxValue,
		NoVisible: "Redis has no deletion that keeps a value: the record's first line says that it is one",
	})
}
