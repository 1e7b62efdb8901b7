package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	node := cluster.Nodes[0]
	for name, judge := range map[string]func(*testing.T, *etcdlab.Node){
		"WriteUnderAnEndedContextIsNeverSent":       endedContext,
		"RepetitionByTheClientIsHeldBack":           heldBack,
		"WriteOverAForeignKeyBesideTheTombstone":    besideTheTombstone,
		"CompactionAndDefragmentationChangeNothing": compacted,
		"WhatStandsInAnotherPrefixIsNotThere":       prefixes,
		"OneTransactionForEachWriteAndNothingElse":  oneTransaction,
		"ReadsAreRepeatedAndShowThePresent":         repeatedReads,
	} {
		t.Run(name, func(t *testing.T) { judge(t, node) })
	}
	t.Run("AWriteOfAServerThatWasKilledMidwayIsUnknown", func(t *testing.T) {
		trial.KillsDuringAWrite(t, open(t, cluster.Client(t), etcdstore.Options{Prefix: newPrefix()}), node, cluster.Run)
	})
}

func endedContext(t *testing.T, node *etcdlab.Node) {
	r := newRelay(t, node.Addr)
	s := open(t, etcdlab.Client(t, []string{"http://" + r.addr}), etcdstore.Options{Prefix: newPrefix()})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := s.CompareAndSwap(ctx, store.Write{Key: "g"})
	trial.Outcome(t, err, store.Transient, "nothing was sent", "enough")
	if n := r.served("Txn"); n != 0 {
		t.Errorf("%d transactions", n)
	}
}

// The client repeats a transaction by itself if the server answers that its
// context has ended, while the caller's has not. The repetition is refused for
// what the first has done.
func heldBack(t *testing.T, node *etcdlab.Node) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
		t.Run(code.String(), func(t *testing.T) {
			r := newRelay(t, node.Addr)
			client := etcdlab.Client(t, []string{"http://" + r.addr})
			s := open(t, client, etcdstore.Options{Prefix: newPrefix()})
			r.instead("Txn", status.Error(code, "context ended"))
			_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Value: []byte("mine")})
			trial.Outcome(t, err, store.Unknown, "context ended")
			if n := r.served("Txn"); n != 1 {
				t.Errorf("the write reached the server %d times", n)
			}
			if e := trial.Get(t, s, "g"); string(e.Value) != "mine" {
				t.Errorf("the register holds %q", e.Value)
			}
			// This is what the safeguard is for. If it fails, the client has
			// learned, and the safeguard is for nothing.
			r.instead("Txn", status.Error(code, "context ended"))
			key := s.Prefix() + "plain"
			answer, err := client.Txn(trial.Within(t)).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "mine")).Commit()
			if err != nil || answer.Succeeded {
				t.Errorf("the plain client does not repeat writes any more: %v, %v", answer, err)
			}
		})
	}
}

func besideTheTombstone(t *testing.T, node *etcdlab.Node) {
	client := etcdlab.Client(t, []string{node.URL()})
	s := open(t, client, etcdstore.Options{Prefix: newPrefix()})
	dead := trial.Must(t, s, store.Write{Key: "g", Value: []byte("vacant"), Tombstone: true})
	put := func(key, value string) {
		t.Helper()
		if _, err := client.Put(trial.Within(t), s.Prefix()+key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("g", "foreign")
	e := trial.Get(t, s, "g")
	if e.Tombstone || string(e.Value) != "foreign" {
		t.Fatalf("a foreign write over a tombstone reads as %+v", e)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: dead})
	trial.Outcome(t, err, store.Conflict)
	rev := trial.Must(t, s, store.Write{Key: "g", Expected: e.Revision, Value: []byte("ours")})
	if e := trial.Get(t, s, "g"); e.Revision != rev || e.Tombstone || string(e.Value) != "ours" {
		t.Errorf("%+v", e)
	}
	// A key that another tool puts between the two keys of a register does no
	// harm either.
	put("g+other", "junk")
	rev = trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("vacant"), Tombstone: true})
	rev = trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("vacant again"), Tombstone: true})
	if e := trial.Get(t, s, "g"); e.Revision != rev || !e.Tombstone || string(e.Value) != "vacant again" {
		t.Errorf("%+v", e)
	}
	trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("ours")})
	for _, tombstone := range []bool{false, true} { // nor in the transaction of the first write
		key := fmt.Sprint("first/", tombstone)
		put(key+"+other", "junk")
		rev := trial.Must(t, s, store.Write{Key: key, Value: []byte("first"), Tombstone: tombstone})
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: key, Value: []byte("first again")})
		trial.Outcome(t, err, store.Conflict, fmt.Sprint(rev))
	}
}

func compacted(t *testing.T, node *etcdlab.Node) {
	client := etcdlab.Client(t, []string{node.URL()})
	s := open(t, client, etcdstore.Options{Prefix: newPrefix()})
	live := trial.Must(t, s, store.Write{Key: "live", Value: []byte("1")})
	dead := trial.Must(t, s, store.Write{Key: "dead", Value: []byte("1"), Tombstone: true})
	h := trial.Listen(t, s, "live", "dead")
	h.Value("1")
	for i := range 3 {
		last := trial.Must(t, s, store.Write{Key: "other", Expected: trial.Get(t, s, "other").Revision, Value: fmt.Append(nil, i)})
		if _, err := client.Compact(trial.Within(t), int64(last), clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Defragment(trial.Within(t), node.URL()); err != nil {
			t.Fatal(err)
		}
	}
	if e := trial.Get(t, s, "live"); e.Revision != live {
		t.Errorf("%+v", e)
	}
	if e := trial.Get(t, s, "dead"); e.Revision != dead || !e.Tombstone {
		t.Errorf("%+v", e)
	}
	trial.Must(t, s, store.Write{Key: "live", Expected: live, Value: []byte("2")})
	h.Value("2")
	trial.Must(t, s, store.Write{Key: "dead", Expected: dead, Value: []byte("3")})
	h.Value("3")
}

func prefixes(t *testing.T, node *etcdlab.Node) {
	client := etcdlab.Client(t, []string{node.URL()})
	a := open(t, client, etcdstore.Options{Prefix: newPrefix()})
	b := open(t, client, etcdstore.Options{Prefix: newPrefix()})
	trial.Must(t, a, store.Write{Key: "g", Value: []byte("a")})
	trial.Must(t, b, store.Write{Key: "g", Value: []byte("b")})
	if e := trial.Get(t, a, "g"); string(e.Value) != "a" {
		t.Errorf("%q", e.Value)
	}
	answer, err := client.Get(trial.Within(t), a.Prefix()+"g")
	if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "a" {
		t.Errorf("etcd's own tool reads %v, %v: the record is to be there unchanged", answer, err)
	}
}

func oneTransaction(t *testing.T, node *etcdlab.Node) {
	r := newRelay(t, node.Addr)
	s := open(t, etcdlab.Client(t, []string{"http://" + r.addr}), etcdstore.Options{Prefix: newPrefix()})
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	for i := range 9 {
		rev = trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i), Tombstone: i%3 == 2})
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: 1})
	trial.Outcome(t, err, store.Conflict, fmt.Sprint(rev))
	if n := r.served("Txn"); n != 11 {
		t.Errorf("11 writes took %d transactions", n)
	}
	if n := r.served("Range"); n != 0 {
		t.Errorf("11 writes took %d reads", n)
	}
}

func repeatedReads(t *testing.T, node *etcdlab.Node) {
	r := newRelay(t, node.Addr)
	s := open(t, etcdlab.Client(t, []string{"http://" + r.addr}), etcdstore.Options{Prefix: newPrefix()})
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	r.instead("Range", status.Error(codes.Canceled, "context ended"))
	if e := trial.Get(t, s, "g"); e.Revision != rev {
		t.Errorf("%+v", e)
	}
	r.instead("Range", rpctypes.ErrGRPCNoLeader)
	_, err := s.Get(trial.Within(t), "g")
	trial.Outcome(t, err, store.Transient, "no leader")
}

// A full server reports being full for writes that it refused, and also for
// some that it applied.
func TestAFullServerIsHonest(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1, "--quota-backend-bytes", "16000000")
	admin := cluster.Client(t)
	s := open(t, admin, etcdstore.Options{Prefix: newPrefix()})
	kept := trial.Must(t, s, store.Write{Key: "kept", Value: []byte("1")})
	type result struct {
		key string
		err error
	}
	results := make(chan result)
	var all sync.WaitGroup
	for worker := range 16 { // each writes until it is refused
		all.Go(func() {
			var r result
			for i := 0; r.err == nil; i++ {
				r.key = fmt.Sprintf("full/%d/%d", worker, i)
				_, r.err = s.CompareAndSwap(trial.Within(t), store.Write{Key: r.key, Value: make([]byte, 1<<20)})
			}
			results <- r
		})
	}
	go func() { all.Wait(); close(results) }()
	var applied, refused int
	for r := range results {
		e := trial.Get(t, s, r.key)
		switch o := store.Classify(r.err); {
		case o == store.Permanent && e.Revision == 0:
			refused++
		case o == store.Unknown && e.Revision != 0:
			applied++
		default:
			t.Errorf("key %s is at %d, and its writer got %v: %v", r.key, e.Revision, o, r.err)
		}
	}
	t.Logf("of 16 writes that etcd answered with a lack of space %d were applied all the same, %d were not", applied, refused)
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "kept", Expected: kept, Value: []byte("2")})
	trial.Outcome(t, err, store.Permanent, "disarm")
	_, err = s.Check(trial.Within(t), store.CheckRequest{TTL: 10 * time.Second, Key: "kept"})
	trial.Outcome(t, err, store.Permanent, "NOSPACE", "disarm")
	if e := trial.Get(t, s, "kept"); e.Revision != kept {
		t.Errorf("%+v", e)
	}
	makeRoom(t, admin, cluster.Nodes[0], s.Prefix()+"full/")
	trial.Must(t, s, store.Write{Key: "kept", Expected: kept, Value: []byte("2")})
	if report, err := s.Check(trial.Within(t), store.CheckRequest{TTL: 10 * time.Second, Key: "kept"}); err != nil || len(report.Warnings) > 0 {
		t.Errorf("%v, %v", report, err)
	}
}

// makeRoom follows the instructions of the error.
func makeRoom(t *testing.T, admin *clientv3.Client, node *etcdlab.Node, prefix string) {
	t.Helper()
	ctx := trial.Within(t)
	deleted, err := admin.Delete(ctx, prefix, clientv3.WithPrefix())
	if err == nil {
		_, err = admin.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = admin.Defragment(ctx, node.URL())
	}
	if err == nil {
		_, err = admin.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
