package core_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/tasks/internal/core"
)

func TestRendezvousSpreadsKeysAndMovesOnlyTheKeysOfChangedWorkers(t *testing.T) {
	const keys = 10_000
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	at := func(names []string) (of []string, share map[string]int) {
		share = map[string]int{}
		for i := range keys {
			name := core.Rendezvous(fmt.Sprint("key", i), names)
			of, share[name] = append(of, name), share[name]+1
		}
		return of, share
	}
	before, share := at(names)
	for name, n := range share {
		if n < keys/len(names)*8/10 || n > keys/len(names)*12/10 {
			t.Errorf("%s has %d of %d keys", name, n, keys)
		}
	}
	shuffled := slices.Clone(names)
	slices.Reverse(shuffled)
	if same, _ := at(shuffled); !slices.Equal(same, before) {
		t.Error("the order of the names matters")
	}
	without, _ := at(names[:9])
	for i := range keys {
		if before[i] != "j" && before[i] != without[i] {
			t.Fatalf("key %d moved from %s to %s when j left", i, before[i], without[i])
		}
	}
	if got := core.Rendezvous("key", nil); got != "" {
		t.Errorf("without names: %q", got)
	}
}
