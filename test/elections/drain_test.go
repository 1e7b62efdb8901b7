package elections_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The users of earlier versions lack all rights to the drain records. After an
// upgrade their candidates start and lead as before, and name the right that an
// administrator may grant. With part of the rights they are drained.
func TestCandidatesWithoutRightsToDrainsLead(t *testing.T) {
	t.Parallel()
	const read, hear, write = "$JS.API.DIRECT.GET.KV_b.$KV.b._ctl._drain.a", "leader.b._ctl._drain.a", "$KV.b._ctl._drain.a"
	for _, c := range []struct {
		name           string
		pub, sub       []string
		drained, taken bool
		warns          string // "": it warns of nothing
	}{
		{"all", []string{read, write}, []string{hear}, true, true, ""},
		{"none", nil, nil, false, false, hear},
		{"read", []string{read}, nil, true, false, hear},
		{"read and hear", []string{read}, []string{hear}, true, false, write},
		{"hear", nil, []string{hear}, true, false, read},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pub, sub := candidateRights()
			srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", append(pub, c.pub...), append(sub, c.sub...))))
			admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
			ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
			control, err := leader.NewControl(admin, "b", "ops")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(control.Close)
			order := func() {
				t.Helper()
				if err := control.Drain(t.Context(), "a", "kernel"); err != nil {
					t.Fatal(err)
				}
			}
			g := newGroup(t, "b")
			// Without the right to hear, the order is read at the start and every
			// leader.DrainInterval.
			hears := slices.Contains(c.sub, hear)
			if c.drained && !hears {
				order()
			}
			a := g.join(srv.Connect(t, nats.UserInfo("c", "c")), "a", ttl(short))
			if !c.drained || hears {
				g.await("a leads", a.IsLeader)
			}
			warned := func() bool {
				return slices.ContainsFunc(a.noted(leader.NoteWarning), func(text string) bool {
					return strings.Contains(text, c.warns) && strings.Contains(text, "drain record")
				})
			}
			if !c.drained {
				g.await("a names the right", warned)
				return
			}
			if hears {
				order()
			}
			g.await("a leads no more", func() bool { return !a.IsLeader() && a.Status().Barred == leader.ReasonDrained })
			if c.warns != "" {
				g.await("a names the right", warned)
			}
			g.await("the order is taken, if it may be", func() bool {
				s, err := control.DrainState(t.Context(), "a")
				return err == nil && s.Drained && s.Taken == c.taken
			})
			if !hears {
				return
			}
			if err := control.Undrain(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			g.await("a leads again", a.IsLeader)
		})
	}
}

// The elections of a process follow one drain: one of them all reads its record,
// at the start and then rarely, and one writes that the process obeys.
func TestDrainOfManyElectionsCostsFewRequests(t *testing.T) {
	t.Parallel()
	const n = 100
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	var mu sync.Mutex
	requests := map[string]int{}
	counting := srv.Connect(t)
	for _, subject := range []string{"$JS.API.DIRECT.GET.KV_b.$KV.b._ctl._drain.a", "$KV.b._ctl._drain.a"} {
		if _, err := counting.Subscribe(subject, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			requests[strings.TrimSuffix(m.Subject, "b._ctl._drain.a")]++
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := counting.Flush(); err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, "b")
	var all []leader.Election
	for i := range n {
		e, err := leader.NewElection(nc, leader.ElectionConfig{Bucket: "b", Group: fmt.Sprint("g", i), InstanceID: "a", TTL: long, HeartbeatInterval: long / 4, AcquireGrace: leader.GraceOff})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop() })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	leads := func() bool { return !slices.ContainsFunc(all, func(e leader.Election) bool { return !e.IsLeader() }) }
	g.await("all lead", leads)
	control, err := leader.NewControl(nc, "b", "ops")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	count := func(of string) int {
		mu.Lock()
		defer mu.Unlock()
		return requests[of]
	}
	const reads, writes = "$JS.API.DIRECT.GET.KV_b.$KV.", "$KV."
	started := count(reads)
	if started > 2 { // of the watch, and of the drain
		t.Errorf("%d elections read the drain record %d times at their start", n, started)
	}
	if err := control.Drain(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	g.await("none leads", func() bool { return !slices.ContainsFunc(all, leader.Election.IsLeader) })
	own := 1 // read for the order
	g.await("the order is taken", func() bool {
		own++
		s, err := control.DrainState(t.Context(), "a")
		return err == nil && s.Taken
	})
	// One write is the order. A silent key is read each 30 s.
	if r, w := count(reads)-started-own, count(writes)-1; r > 1 || w != 1 {
		t.Errorf("%d elections made %d reads and %d writes to be drained", n, r, w)
	}
}
