package spec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// expiring are buckets whose records expire, as `nats kv add --ttl` and older
// programs make them.
var expiring = map[string]func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration){
	"legacy": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		js, err := nc.JetStream()
		if err != nil {
			tb.Fatal(err)
		}
		natslab.Eventually(tb, "bucket made", func(context.Context) error {
			_, err := js.CreateKeyValue(&nats.KeyValueConfig{Bucket: bucket, TTL: ttl})
			return err
		})
	},
	"present": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: bucket, TTL: ttl})
	},
	"markers": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: bucket, TTL: ttl, LimitMarkerTTL: time.Minute})
	},
}

// `nats kv del` forces a stand-down: the leader trusts its lease for no longer
// than a lease's length, another takes over, and there are never two.
func TestDeletedKeyForcesAStandDownWithinOneLease(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			const lease = short
			create(t, admin, name, 2*lease)
			kv := open(t, admin, name)
			g := newGroup(t, name)
			a := g.join(srv.Connect(t), "a", ttl(lease))
			a.leads()
			for _, id := range []string{"b", "c"} {
				g.join(srv.Connect(t), id, ttl(lease)).hears()
			}
			for rounds, again := 0, 0; rounds < 2; rounds++ {
				old := g.leaderAfter(leader.Term{})
				g.await(old.id+" is told", func() bool { return strings.HasSuffix(old.told(), "won") })
				losses, term := len(old.lost()), old.Term()
				if term.IsZero() {
					continue // the machine stalled for a lease
				}
				if err := kv.Delete(within(t), "g"); err != nil {
					t.Fatal(err)
				}
				// Not "it has stood down by now", which a slow machine could
				// not keep: no renewal that left after the deletion can have
				// succeeded.
				deleted := time.Now()
				if until := old.TrustUntil(); until.Sub(deleted) > lease {
					t.Errorf("%s trusts its lease for %v after the deletion", old.id, until.Sub(deleted))
				}
				next := g.leaderAfter(term)
				g.await(old.id+" has lost its term", func() bool { return len(old.lost()) > losses })
				switch why := old.lost()[losses]; why {
				case leader.ReasonDeleted:
					if next != old {
						break
					}
					// The others have a lease for themselves. A machine that
					// stalls may let it pass, and not each time.
					after := old.Status().Acquired.Sub(deleted)
					again++
					if after < lease || again > 3 {
						t.Fatalf("%s, which was to stand down, leads again after %v", old.id, after)
					}
					rounds--
				case leader.ReasonTrustExpired: // it was too slow to hear of it
				default:
					t.Errorf("%s lost by %q", old.id, why)
				}
				g.await(old.id+" is told of its loss", func() bool { return strings.Contains(old.told(), "lost") })
			}
		})
	}
}

// A leader that falls silent loses its key to the server's expiry, and another
// leads.
func TestSilentLeaderOfAnExpiringBucketIsSucceeded(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			create(t, srv.Connect(t), name, 2*short)
			g := newGroup(t, name)
			a := g.joinBehind(srv, "a", ttl(short))
			a.leads()
			b := g.joinBehind(srv, "b", ttl(short))
			b.hears()
			// Whoever leads by now falls silent: the machine may have stalled for
			// a's lease.
			old, losses, first := g.leading()
			old.proxy.Hold(natslab.ToServer, natslab.ToClient)
			if next := g.leaderAfter(first); next == old {
				t.Errorf("%s, which is silent, leads again", old.id)
			}
			old.proxy.Resume()
			g.await(old.id+" knows that its term is over", func() bool { return len(old.lost()) > losses })
		})
	}
}

// As long as its leader renews it, a key does not expire.
func TestLeaderKeepsItsKeyFromExpiring(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			const lease = time.Second
			create(t, srv.Connect(t), name, lease)
			g := newGroup(t, name)
			a := g.join(srv.Connect(t), "a", ttl(lease))
			// On a machine that stalls a term may end. The next one may do.
			g.await("a term that outlasts three lives of the bucket's records", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return a.IsLeader() && time.Since(a.promoted) > 3*lease && a.renewals > 6
			})
			if _, err := open(t, srv.Connect(t), name).Get(within(t), "g"); err != nil && a.IsLeader() {
				t.Errorf("the leader's key: %v", err)
			}
		})
	}
}

// The buckets of the libraries before this one are taken as they are, and what
// they cost is said.
func TestBucketMadeForAnEarlierLibraryServesWithAWarning(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	for _, life := range []time.Duration{31 * time.Second, time.Minute, 5 * time.Minute, time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			bucket := "B" + fmt.Sprint(life.Seconds())
			expiring["legacy"](t, admin, bucket, life)
			g := newGroup(t, bucket)
			a := g.join(srv.Connect(t), "a", ttl(short))
			a.leads()
			if w := a.warned(); !strings.Contains(w, "expires records "+life.String()) {
				t.Errorf("warned of %q", w)
			}
		})
	}
}

// A bucket's records have to live at least as long as the leases in it.
func TestLeaseLongerThanTheBucketsTTLIsRefused(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	expiring["legacy"](t, srv.Connect(t), "b", time.Second)
	g := newGroup(t, "b")
	for lease, want := range map[time.Duration]store.Outcome{
		time.Second: store.OK, time.Second + time.Millisecond: store.Permanent, time.Hour: store.Permanent,
	} {
		err := g.candidate(srv.Connect(t), "a", ttl(lease)).Start(within(t))
		if store.Classify(err) != want || err != nil && !strings.Contains(err.Error(), "before a lease of") {
			t.Errorf("a lease of %v: %v", lease, err)
		}
	}
}

// In a bucket that forgets, who wins is told so only when any former leader has
// had time to stand down.
func TestWinnerInAnExpiringBucketIsToldAfterACoolOff(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			create(t, srv.Connect(t), name, 2*short)
			kv := open(t, srv.Connect(t), name)
			g := newGroup(t, name)
			begun := time.Now()
			a := g.join(srv.Connect(t), "a", ttl(short))
			g.await("a has claimed the key", func() bool {
				_, err := kv.Get(within(t), "g")
				return err == nil
			})
			a.leads()
			if took := time.Since(begun); took < short {
				t.Errorf("told %v after its start; the lease is %v", took, short)
			}
		})
	}
}

// What a leader leaves to others in such a bucket is taken without a cool-off:
// its key is gone because it wanted that, and nothing older can come back.
func TestHandoverInAnExpiringBucketNeedsNoCoolOff(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create(t, srv.Connect(t), name, 2*short)
			g := newGroup(t, name)
			g.join(srv.Connect(t), "a", ttl(short)).leads()
			g.join(srv.Connect(t), "b", ttl(short))
			for reason, leave := range map[leader.Reason]func(*member) error{
				leader.ReasonTransferred: func(m *member) error { return m.Transfer(within(t), map[string]string{"a": "b", "b": "a"}[m.id]) },
				leader.ReasonResigned:    func(m *member) error { return m.Resign(within(t)) },
			} {
				g.takenAtOnce(reason, leave)
			}
			g.takenAtOnce(leader.ReasonStopped, func(m *member) error {
				heir := g.join(srv.Connect(t), fmt.Sprint(m.id, "'"), ttl(short))
				heir.hears()
				return m.StopWithContext(within(t), leader.StopOptions{DeleteKey: true, WaitForDemote: true})
			})
		})
	}
}

// takenAtOnce fails the test unless somebody takes over without a cool-off what
// leaders have left for that reason. One whose watch is behind the offer that
// it hears claims what it knows, and has to cool off: on a machine that stalls
// that may happen, but not each time.
func (g *group) takenAtOnce(reason leader.Reason, leave func(*member) error) {
	g.tb.Helper()
	var cooled []int
	for range 3 {
		n := g.handedOver(reason, leave).coolDown()
		if n == 0 {
			return
		}
		cooled = append(cooled, n)
	}
	g.tb.Errorf("%s: promoted after %d renewals, as after a cool-off, in each of three handovers", reason, cooled)
}

// handedOver has leaders leave until one does so for that reason and its
// successor takes over undisturbed, and returns that one. A machine that stalls
// may have the lease run out before, or the vacancy expire, or the claim that
// follows it, or a write go without an answer: to what comes then nothing was
// left, and it has to cool off.
func (g *group) handedOver(reason leader.Reason, leave func(*member) error) *member {
	g.tb.Helper()
	for ctx := within(g.tb); ctx.Err() == nil; {
		before := g.claims()
		old, losses, term := g.leading()
		if err := leave(old); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			g.tb.Fatal(err)
		}
		next := g.leaderAfter(term)
		g.await(old.id+" has lost its term", func() bool { return len(old.lost()) > losses })
		_ = next.coolDown() // what came before its promotion is told by then
		if old.lost()[losses] == reason && g.claims() == (claims{before.made + 1, before.disturbed}) && next.wasLeftIt() {
			return next
		}
	}
	g.tb.Fatalf("no handover, %s, was undisturbed\n%s", reason, g.report())
	return nil
}
