package natsstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The servers are processes, and die as processes do: no file is closed, and
// peers get no notice.
func TestElectionRecoversFromTheKillOfAClustersNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster of processes")
	}
	cluster := natslab.StartProcesses(t, 3, "")
	admin := cluster.Connect(t)
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b", Replicas: 3})
	candidates := []leader.Election{
		stand(t, cluster.Connect(t), "a", natsstore.Options{}),
		stand(t, cluster.Connect(t), "b", natsstore.Options{}),
		stand(t, cluster.Connect(t), "c", natsstore.Options{}),
	}
	watch := lookout.Keep(t)
	for i, c := range candidates {
		watch.Add(string("abc"[i]), c)
	}
	var last uint64
	for round := range 3 {
		before := oneLeads(t, candidates)
		victim := cluster.StreamLeader(admin, "KV_b")
		if round == 2 { // a follower
			victim = cluster.Nodes[(slices.Index(cluster.Nodes, victim)+1)%3]
		}
		killed := time.Now()
		victim.Kill()
		term := renewed(t, candidates, killed)
		t.Logf("%s killed: led and renewed again after %v, term %d before, %d after", victim.Name, time.Since(killed).Round(time.Millisecond), before, term)
		if term < before || before < last {
			t.Errorf("terms %d, %d, %d", last, before, term)
		}
		last = term
		victim.Run()
		cluster.AwaitReady()
		natslab.Eventually(t, "all replicas are current", func(ctx context.Context) error {
			s, err := natslab.JetStream(t, admin).Stream(ctx, "KV_b")
			if err != nil {
				return err
			}
			for _, r := range s.CachedInfo().Cluster.Replicas {
				if !r.Current {
					err = errors.Join(err, errors.New(r.Name+" is not"))
				}
			}
			return err
		})
	}
}

// The death of a server's process loses an acknowledged write only in a bucket
// for which Check reports that it may forget.
func TestABucketThatAKillSetsBackIsReportedToForget(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process")
	}
	lab := natslab.StartProcesses(t, 1, "")
	nc := lab.Connect(t)
	for mode, forgets := range map[jetstream.PersistModeType]bool{jetstream.DefaultPersistMode: false, jetstream.AsyncPersistMode: true} {
		bucket := newBucket()
		_, err := natslab.JetStream(t, nc).CreateStream(natslab.Within(t), jetstream.StreamConfig{
			Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			AllowDirect: true, DenyDelete: true, DenyPurge: true, PersistMode: mode,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, nc, bucket, natsstore.Options{})
		r, err := s.Check(natslab.Within(t), store.CheckRequest{TTL: time.Second})
		if err != nil || r.Forgetful != forgets {
			t.Errorf("%v: %+v, %v; want a bucket that forgets: %t", mode, r, err, forgets)
		}
		var at uint64
		for range 3 {
			rev := trial.Settle(t, s, "g", at, rand.Text())
			lab.Nodes[0].Kill()
			lab.Nodes[0].Run()
			lab.AwaitReady()
			natslab.Eventually(t, "the key is read", func(ctx context.Context) error {
				e, err := s.Get(ctx, "g")
				at = e.Revision
				return err
			})
			if at != rev && !r.Forgetful {
				t.Errorf("%v: the key is at %d, and %d was acknowledged", mode, at, rev)
			}
		}
	}
}

// oneLeads waits until a candidate leads, and returns its term.
func oneLeads(t *testing.T, candidates []leader.Election) (term uint64) {
	t.Helper()
	return renewed(t, candidates, time.Time{})
}

// renewed waits until a candidate leads by a renewal that left after the
// instant, and returns its term.
func renewed(t *testing.T, candidates []leader.Election, since time.Time) (term uint64) {
	t.Helper()
	natslab.Eventually(t, "a candidate leads and has renewed", func(context.Context) error {
		for _, c := range candidates {
			if st := c.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
				term = st.Term
				return nil
			}
		}
		return errors.New("nobody")
	})
	return term
}
