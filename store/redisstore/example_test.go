package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
)

// An election over the Redis client that a program has already.
func Example() { //nolint:testableexamples // it needs a server
	rdb := redis.NewClient(&redis.Options{Addr: "redis.example:6379"})
	defer rdb.Close() //nolint:errcheck // the program ends
	st, err := redisstore.New(rdb, redisstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it leaves the client to the caller
	election, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	election.OnPromote(func(_ context.Context, token string) { fmt.Println("leading by", token) })
	if err := election.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	<-time.After(time.Hour) // the program's work
	_ = election.Stop()
}

// ExampleOpen opens a store that makes a connection, for programs that have
// none.
func ExampleOpen() {
	_, err := redisstore.Open(context.Background(), "redis://127.0.0.1:1?prefix=team:")
	fmt.Println(store.Classify(err))
	// Output: transient
}
