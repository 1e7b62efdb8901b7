package elections_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// historiesBucket is the bucket of the histories, each of which has its own
// keys.
const historiesBucket = "histories"

// registers are the registers of the bucket, which is made. Messages that a
// client publishes while it is not connected wait in its buffer, as by default,
// and are sent when it is back.
func registers(tb testing.TB, replicas int, connect func(testing.TB, ...nats.Option) *nats.Conn) judge.Registers {
	tb.Helper()
	nc := connect(tb)
	natslab.Eventually(tb, "bucket made", func(ctx context.Context) error {
		js := natslab.JetStream(tb, nc)
		if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: historiesBucket, Replicas: replicas}); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, historiesBucket)
		return err
	})
	over := func(tb testing.TB, nc *nats.Conn) store.Store {
		tb.Helper()
		st, err := natsstore.New(nc, historiesBucket, natsstore.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(st.Close)
		return st
	}
	return judge.Registers{
		Harness: storetest.Harness{Open: func(tb testing.TB) store.Store { return over(tb, connect(tb)) }},
		At: func(tb testing.TB, addr string) store.Store {
			return over(tb, natslab.Connect(tb, "nats://"+addr, nats.IgnoreDiscoveredServers(), nats.ReconnectBufSize(8<<20)))
		},
	}
}

// withFaults are the options of a history. Its asynchronous writes are made as
// elections make them.
func withFaults() judge.Options {
	return trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults}, Enough: func(c histories.Tally) error {
		if c.Writes < 500 || c.Acknowledged < 100 || c.Conflicts < 50 || c.Unknown < 10 || c.Async < 100 {
			return fmt.Errorf("too little: %v", c)
		}
		return nil
	}})
}

func TestBucketOnOneServerIsLinearizable(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv := natslab.Start(tb)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, 1, srv.Connect) },
			Addrs:     []string{srv.Addr()},
			Processes: []judge.Process{{Name: "the server", Kill: srv.Stop, Run: srv.Run}},
		}
	}, withFaults())
}

// The servers are processes, and die as such. Conflicts are left out of the
// order: see the package's documentation.
func TestBucketInAClusterIsLinearizable(t *testing.T) {
	t.Parallel()
	opts := withFaults()
	opts.StaleConflicts = true
	judge.Run(t, func(tb testing.TB) judge.Subject {
		cluster := natslab.StartProcesses(tb, 3, "")
		nc := cluster.Connect(tb)
		var down *natslab.Process
		kill := func(p *natslab.Process) { down = p; p.Kill() }
		run := func() { down.Run(); cluster.AwaitReady() }
		s := judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, 3, cluster.Connect) },
			Processes: []judge.Process{
				{Name: "a server", Spare: true, Run: run, Kill: func() { kill(cluster.Nodes[rand.IntN(3)]) }},
				{Name: "the stream's leader", Spare: true, Run: run, Kill: func() { kill(cluster.StreamLeader(nc, "KV_"+historiesBucket)) }},
			},
			Faults: []histories.Fault{{Name: "step-down of the stream's leader", Happen: func(*rand.Rand) error {
				// It may have none just now, which is a fault as well.
				_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+historiesBucket, nil, 2*time.Second)
				return nil
			}}},
		}
		for _, node := range cluster.Nodes {
			s.Addrs = append(s.Addrs, node.Addr())
		}
		return s
	}, opts)
}

// blind is a store whose writes forget what they expect, and are honest
// otherwise.
type blind struct {
	store.Store
	put func(ctx context.Context, key string, value []byte) (uint64, error)
}

func (b blind) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	rev, err := b.put(ctx, w.Key, w.Value)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return rev, nil
}

func TestStoreThatForgetsTheExpectedRevisionIsCondemned(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	regs := registers(t, 1, srv.Connect)
	stores := []store.Store{regs.Open(t), regs.Open(t), regs.Open(t)}
	kv, err := natslab.JetStream(t, srv.Connect(t)).KeyValue(natslab.Within(t), historiesBucket)
	if err != nil {
		t.Fatal(err)
	}
	memory := memstore.New()
	for name, all := range map[string][]store.Store{
		"NATS": {blind{stores[0], kv.Put}, blind{stores[1], kv.Put}, blind{stores[2], kv.Put}},
		"Memory": {blind{memory, func(_ context.Context, key string, value []byte) (uint64, error) {
			return memory.Put(key, value), nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := histories.New()
			var clients []*histories.Client
			for i, st := range all {
				clients = append(clients, h.Client(i, st))
			}
			// Two that expect the same are enough.
			for _, c := range []*histories.Client{clients[0], clients[len(clients)-1]} {
				if _, outcome := c.Swap(natslab.Within(t), "k", 0); outcome != store.OK {
					t.Fatalf("a write ended %v", outcome)
				}
			}
			if err := (histories.Judge{}).Verdict(h.Ops()); err == nil {
				t.Errorf("it passed:\n%v", h.Ops())
			} else {
				t.Log(err)
			}
		})
	}
}
