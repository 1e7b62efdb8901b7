package etcdstore_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
)

var measure = flag.Int("measure", 0, "how many of each operation to measure; 0: none")

// go test ./etcdstore -run TestMeasure -v -args -measure 200
func TestMeasure(t *testing.T) {
	if *measure == 0 {
		t.Skip("asked for with -args -measure 200")
	}
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%dServers", nodes), func(t *testing.T) { measured(t, etcdlab.Start(t, nodes)) })
	}
}

func measured(t *testing.T, cluster *etcdlab.Cluster) {
	client := cluster.Client(t)
	s := open(t, client, etcdstore.Options{})
	watching := open(t, cluster.Client(t), etcdstore.Options{})
	h := trial.Listen(t, watching, "m")
	h.Until("nothing", func(e store.Entry) bool { return e.Revision == 0 })
	value := make([]byte, 300) // about a record's size
	var plain, swap, heard, handover []time.Duration
	var rev uint64
	for range *measure {
		at := time.Now()
		if _, err := client.Put(trial.Within(t), "plain", string(value)); err != nil {
			t.Fatal(err)
		}
		plain = append(plain, time.Since(at))
		at = time.Now()
		rev = trial.Must(t, s, store.Write{Key: "m", Expected: rev, Value: value})
		swap = append(swap, time.Since(at))
		h.Until("the write", func(e store.Entry) bool { return e.Revision == rev })
		heard = append(heard, time.Since(at))
	}
	p := elections.NewParty(t, time.Minute)
	a := p.Join("a", open(t, cluster.Client(t), etcdstore.Options{}))
	p.Renewed(time.Time{})
	b := p.Join("b", open(t, cluster.Client(t), etcdstore.Options{}))
	for range *measure {
		at := time.Now()
		if err := a.Resign(trial.Within(t)); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			t.Fatal(err)
		}
		for !b.IsLeader() {
			<-time.After(100 * time.Microsecond)
		}
		handover = append(handover, time.Since(at))
		a, b = b, a
	}
	for name, all := range map[string][]time.Duration{"plain put": plain, "compare-and-swap": swap, "write until it is heard of": heard, "handover": handover} {
		slices.Sort(all)
		t.Logf("%s: median %v, 99th of 100 %v, of %d", name, all[len(all)/2], all[len(all)*99/100], len(all))
	}
}
