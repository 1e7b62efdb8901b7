package election_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A slow network holds back the claims of a candidate that found nothing, and
// if it is deaf what it would hear, until it is let go.
type slowNetwork struct {
	*natsstore.Store
	deaf bool
	held chan struct{} // closed when a claim is held back
	free chan struct{} // closed when all goes on
	once sync.Once
}

func (s *slowNetwork) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Expected != 0 {
		return s.Store.CompareAndSwap(ctx, w)
	}
	s.once.Do(func() { close(s.held) })
	<-s.free
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.Store.CompareAndSwap(ctx, w)
}

func (s *slowNetwork) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		done(s.CompareAndSwap(ctx, w))
	}()
	return canceling(cancel)
}

type canceling context.CancelFunc

func (c canceling) Cancel() { c() }

func (s *slowNetwork) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	return s.Store.Watch(ctx, keys, func(e store.Entry) {
		select {
		case <-s.free:
		default:
			if s.deaf && e.Revision != 0 {
				return
			}
		}
		deliver(e)
	})
}

// A claim that found nothing is under way while another candidate is elected.
// That one is cut off, and its bucket deleted and made again. The claim is
// applied in the new bucket, whether the claimant still waits for that or has
// heard of the other and given it up.
func TestAClaimThatFoundNothingLeadsBesideNoLeaderOfADeletedBucket(t *testing.T) {
	for name, deaf := range map[string]bool{"it waits for the answer": true, "it was given up": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = 2 * time.Second
			srv := natslab.Start(t)
			proxy := natslab.NewProxy(t, srv.Addr())
			admin, cut, direct := srv.Connect(t), natslab.Connect(t, proxy.URL()), srv.Connect(t)
			ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
			st, err := natsstore.New(direct, "b", natsstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(st.Close)
			older(t, st, lease+lease/2) // so that nobody doubts at the start
			slow := &slowNetwork{Store: st, deaf: deaf, held: make(chan struct{}), free: make(chan struct{})}
			g := newGroup(t, "b")
			c := g.over(slow, "c", ttl(lease), graceful)
			c.start()
			select {
			case <-slow.held:
			case <-natslab.Within(t).Done():
				t.Fatal("c does not claim")
			}
			a := g.join(cut, "a", ttl(lease), graceful)
			g.await("a leads", a.IsLeader)
			first := a.Term()
			if !deaf {
				g.await("c hears of a", func() bool { return c.LeaderID() == "a" })
			}
			proxy.Hold(natslab.ToServer, natslab.ToClient)
			if err := natslab.JetStream(t, admin).DeleteStream(natslab.Within(t), "KV_b"); err != nil {
				t.Fatal(err)
			}
			ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
			close(slow.free)
			g.await("c leads", c.IsLeader) // the group looks for two leaders all the while
			if !c.Term().Supersedes(first) {
				t.Errorf("term %v after %v", c.Term(), first)
			}
			if w := strings.Join(c.noted(leader.NoteWarning), "\n"); !strings.Contains(w, "made less than a lease ago") {
				t.Errorf("warned of %q", w)
			}
		})
	}
}
