package consulstore_test

import (
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
)

func TestElections(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	kv := node.Client(t).KV()
	elections.Run(t, elections.Harness{
		Open: func(tb testing.TB) store.Store { return open(tb, node.Client(tb), consulstore.Options{}) },
		Delete: func(key string) error {
			_, err := kv.Delete(consulstore.DefaultPrefix+key, (&api.WriteOptions{}).WithContext(trial.Within(t)))
			return err
		},
	})
}
