package redis_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/storelab"
)

func TestElections(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	storelab.Elections(t, storelab.Harness{
		Open:   func(t testing.TB) store.Store { return over(t, dial(t, srv.Addr()), redisstore.Options{}) },
		Delete: func(key string) error { _, err := srv.Say("DEL", "leader:"+key); return err },
	})
}
