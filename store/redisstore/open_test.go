package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
)

// By Sentinel a client can be had that reads from replicas, or one that knows
// nothing but these.
func TestASentinelsReplicasAreNotOpened(t *testing.T) {
	for _, name := range []string{"route_by_latency", "route_randomly", "replica_only"} {
		st, err := redisstore.Open(t.Context(), "redis://:secret@127.0.0.1:1/0?master=m&"+name+"=true")
		if err == nil {
			_ = st.Close() // it should not have been opened
		}
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
