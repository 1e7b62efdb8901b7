package elections_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// What `nats kv get` shows: who leads, in which term and since when, and that
// it was alive at the entry's time.
func TestKVGetShowsTheLeaderItsTermAndItsLastRenewal(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	kv := open(t, srv.Connect(t), "b")
	g := newGroup(t, "b")
	begun := time.Now()
	a := g.join(srv.Connect(t), "c1.example.net", func(c *leader.ElectionConfig) {
		c.HeartbeatInterval = 50 * time.Millisecond
		c.Meta = map[string]string{"zone": "eu"}
	})
	a.leads()
	g.await("some renewals", func() bool { return a.count("renew ok") >= 3 })
	e, err := kv.Get(natslab.Within(t), "g")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		ID                string
		Term              uint64
		Renewal           uint64
		Acquired, Renewed int64 // in milliseconds since 1970
		Meta              map[string]string
	}
	if err := json.Unmarshal(e.Value(), &r); err != nil {
		t.Fatal(err)
	}
	if r.ID != "c1.example.net" || r.Term != a.Term().Number || r.Renewal < 3 || r.Meta["zone"] != "eu" {
		t.Errorf("%s", e.Value())
	}
	// The sequence counts writes: it went on with each renewal.
	if e.Revision() < r.Term+3 {
		t.Errorf("revision %d in term %d", e.Revision(), r.Term)
	}
	// The time comes from the server's clock, which here is this process's
	// clock.
	since := a.Status().LastTransition
	if e.Created().Before(since) || e.Created().After(time.Now()) {
		t.Errorf("renewed at %v; leads since %v", e.Created(), since)
	}
	// Its own times are of the leader's clock. A term begins with the claim,
	// and its holder leads when that is acknowledged.
	if r.Acquired < begun.UnixMilli() || r.Acquired > since.UnixMilli() || r.Renewed < since.UnixMilli() || r.Renewed > time.Now().UnixMilli() {
		t.Errorf("started at %v, leads since %v: %s", begun.UnixMilli(), since.UnixMilli(), e.Value())
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(natslab.Within(t), "g"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("nobody leads, and the key shows %v", err)
	}
}

// Listing the keys shows every election that has a leader, and none that has
// not.
func TestListingKeysShowsTheElections(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	apps := []string{"my_app", "provisioner", "roles/network", "scheduler"}
	members := map[string]*member{}
	for _, app := range apps {
		members[app] = g.alone(srv, app)
	}
	// Again and again: nats.go leaves out a key that is written while it lists,
	// and leaders renew.
	demand := func(want ...string) {
		t.Helper()
		g.await(fmt.Sprintf("the keys are %q", want), func() bool {
			keys, err := open(t, nc, "b").Keys(natslab.Within(t))
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			return slices.Equal(keys, want)
		})
	}
	demand(apps...)
	if err := members["provisioner"].Stop(); err != nil {
		t.Fatal(err)
	}
	demand("my_app", "roles/network", "scheduler")
}

// alone starts the one candidate of an election of the given name. It is not
// counted among the group's members, of which only one may lead.
func (g *group) alone(srv *natslab.Server, name string) *member {
	g.tb.Helper()
	nc := srv.Connect(g.tb)
	m := newGroup(g.tb, g.bucket).join(nc, name, func(c *leader.ElectionConfig) { c.Group = name })
	m.leads()
	return m
}

// Every write to a record or a control record expects a revision: nobody writes
// blind, whatever happens.
func TestEveryWriteExpectsARevision(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	tap := srv.Connect(t)
	ensure(t, tap, natsstore.BucketConfig{Bucket: "b"})
	var mu sync.Mutex
	writes, blind := map[string]int{}, []string{}
	sub, err := tap.Subscribe("$KV.b.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		writes[m.Subject]++
		if m.Header.Get("Nats-Expected-Last-Subject-Sequence") == "" {
			blind = append(blind, fmt.Sprintf("%s %v %s", m.Subject, m.Header, m.Data))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tap.FlushWithContext(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, "b")
	a := g.joinBehind(srv, "a", ttl(short))
	a.leads()
	b := g.joinBehind(srv, "b", ttl(short))
	b.hears()
	// By now it may be b: the machine may have stalled for a's lease.
	old, _, first := g.leading()
	old.proxy.Hold(natslab.ToClient) // its renewals arrive, their answers do not
	g.leaderOfALaterTerm(first)
	old.proxy.Resume()
	holder, _, term := g.leading()
	err = holder.Transfer(natslab.Within(t), map[string]string{"a": "b", "b": "a"}[holder.id])
	if err != nil && !errors.Is(err, leader.ErrNotLeader) { // the machine may have stalled for its lease
		t.Fatal(err)
	}
	g.leaderOfALaterTerm(term)
	if err := b.Pause(natslab.Within(t), "maintenance"); err != nil {
		t.Fatal(err)
	}
	g.await("nobody leads", func() bool { return !a.IsLeader() && !b.IsLeader() })
	if err := b.Resume(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	last := g.leader()
	if err := last.Stop(); err != nil {
		t.Fatal(err)
	}
	g.leaderAfter(last)
	heard := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(heard) }) // when the last message was looked at
	if err := sub.Drain(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-natslab.Within(t).Done():
		t.Fatal("the writes were not all heard")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(blind) > 0 {
		t.Errorf("%d writes without an expected revision: %q", len(blind), blind)
	}
	if writes["$KV.b.g"] < 10 || writes["$KV.b._ctl.g"] < 2 {
		t.Errorf("the test has seen too little: %v", writes)
	}
}

// A follower costs nothing while the leader renews, but a look at the bucket's
// configuration now and then.
func TestFollowersSendNothingWhileTheLeaderRenews(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	quiet := srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", func(c *leader.ElectionConfig) { c.HeartbeatInterval = 20 * time.Millisecond })
	a.leads()
	g.join(quiet, "b").follows(a)
	before, renewals := quiet.Stats().OutMsgs, a.count("renew ok")
	g.await("a hundred renewals", func() bool { return a.count("renew ok") > renewals+100 })
	if sent := quiet.Stats().OutMsgs - before; sent > 3 {
		t.Errorf("the follower sent %d messages during 100 renewals", sent)
	}
}
