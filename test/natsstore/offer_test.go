package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// An offering is an offer that a taker heard.
type offering struct{ by, offer string }

// takers collects what takers of offers for the key g hear.
type takers struct {
	tb    testing.TB
	heard chan offering
	past  map[string]int // how often hear heard which offer
}

func newTakers(tb testing.TB) *takers {
	return &takers{tb, make(chan offering, 1<<10), make(map[string]int)}
}

func (h *takers) take(s store.Offerer, name string) (stop func()) {
	h.tb.Helper()
	stop, err := s.TakeOffers("g", func(offer []byte) { h.heard <- offering{name, string(offer)} })
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(stop)
	return stop
}

// hear offers until some taker hears it, and returns which.
func (h *takers) hear(s store.Offerer, offer string) (by string) {
	h.tb.Helper()
	attempt := 0
	natslab.Eventually(h.tb, "hearing of "+offer, func(ctx context.Context) error {
		attempt++
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // a lost one is made again
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- s.Offer(ctx, "g", fmt.Appendf(nil, "%s, attempt %d", offer, attempt)) }()
		for {
			select {
			case o := <-h.heard:
				h.past[o.offer]++
				if !strings.HasPrefix(o.offer, offer+",") {
					continue // of an earlier call, late
				}
				by = o.by
				cancel()
				if err := <-ended; attempt == 1 {
					trial.Outcome(h.tb, err, store.Unknown)
				}
				return nil
			case err := <-ended:
				return err
			}
		}
	})
	return by
}

// silentUntil makes an offer and demands that the takers hear that, and nothing
// before.
func (h *takers) silentUntil(s store.Offerer, offer string) {
	h.tb.Helper()
	ctx, cancel := context.WithCancel(natslab.Within(h.tb))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Offer(ctx, "g", []byte(offer)) }()
	for heard := ""; heard != offer; {
		select {
		case o := <-h.heard:
			if heard = o.offer; heard != offer && !strings.HasPrefix(heard, "before") { // which may have been made twice
				h.tb.Errorf("%s heard %.40q", o.by, heard)
			}
		case err := <-ended:
			h.tb.Fatalf("the offer ended: %v", err)
		}
	}
	cancel()
	trial.Outcome(h.tb, <-ended, store.Unknown)
}

// vain demands that an offer ends at once since nobody takes it.
func vain(tb testing.TB, s store.Offerer) {
	tb.Helper()
	natslab.Eventually(tb, "nobody takes offers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		err := s.Offer(ctx, "g", []byte("in vain"))
		if errors.Is(err, store.ErrUnknown) {
			return err // the last taker was not gone yet, or the answer late
		}
		trial.Outcome(tb, err, store.Transient, "nobody takes offers")
		return nil
	})
}

// Nothing about offers needs the bucket.
func offerStore(tb testing.TB, nc *nats.Conn) *natsstore.Store {
	tb.Helper()
	return open(tb, nc, "b", natsstore.Options{})
}

func TestOfferReachesOneTakerAcrossTheServersOfACluster(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	h := newTakers(t)
	var offerers []*natsstore.Store
	stops := map[string]func(){}
	for i, node := range cluster.Nodes {
		offerers = append(offerers, offerStore(t, node.Connect(t)))
		name := fmt.Sprint("taker ", i)
		stops[name] = h.take(offerStore(t, node.Connect(t)), name)
	}
	// The taker leaves, as one that takes the lead does, and another is found
	// from each server.
	for len(stops) > 0 {
		var by string
		for i, s := range offerers {
			by = h.hear(s, fmt.Sprintf("from %d to one of %d", i, len(stops)))
			if stops[by] == nil {
				t.Fatalf("%s heard an offer after its end", by)
			}
		}
		stops[by]()
		delete(stops, by)
	}
	for _, s := range offerers {
		vain(t, s)
	}
	for offer, n := range h.past {
		if n > 1 {
			t.Errorf("%d takers heard the offer %s", n, offer)
		}
	}
}

func TestTakersHearAfterAServerRestart(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	h, s := newTakers(t), offerStore(t, srv.Connect(t))
	h.take(offerStore(t, srv.Connect(t)), "taker")
	for i := range 3 {
		h.hear(s, fmt.Sprint("before ", i))
		srv.Restart()
		h.hear(s, fmt.Sprint("after ", i))
	}
}

// The connection has a reconnect buffer, out of which an offer would come when
// it is long out of date.
func TestOfferOfWhoIsDisconnectedIsNotSentLater(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL())
	h, s := newTakers(t), offerStore(t, nc)
	h.take(offerStore(t, srv.Connect(t)), "taker")
	h.hear(s, "before")
	proxy.Cut()
	natslab.Eventually(t, "disconnection", func(context.Context) error {
		if nc.IsConnected() {
			return errors.New("connected")
		}
		return nil
	})
	trial.Outcome(t, s.Offer(natslab.Within(t), "g", []byte("meanwhile")), store.Transient, "not sent")
	proxy.Resume()
	natslab.Eventually(t, "reconnection", func(context.Context) error { return nc.Flush() })
	h.silentUntil(s, "after")
}

func TestOffersEndWithTheConnection(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	s := offerStore(t, nc)
	newTakers(t).take(s, "taker")
	nc.Close()
	trial.Outcome(t, s.Offer(natslab.Within(t), "g", nil), store.Permanent)
	_, err := s.TakeOffers("g", func([]byte) {})
	trial.Outcome(t, err, store.Permanent)
	other := offerStore(t, srv.Connect(t))
	other.Close()
	_, err = other.TakeOffers("g", func([]byte) {})
	trial.Outcome(t, err, store.Permanent, "closed")
	vain(t, other) // as it still reads and writes
}

// Close ends takers, too, from without and from within.
func TestCloseEndsTakers(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	h, s := newTakers(t), offerStore(t, srv.Connect(t))
	taker := offerStore(t, srv.Connect(t))
	stop := h.take(taker, "taker")
	h.hear(s, "before")
	taker.Close()
	vain(t, s)
	stop()
	taker = offerStore(t, srv.Connect(t))
	if _, err := taker.TakeOffers("g", func(offer []byte) {
		taker.Close()
		h.heard <- offering{"taker", string(offer)}
	}); err != nil {
		t.Fatal(err)
	}
	h.hear(s, "closing")
	vain(t, s)
}

// limited starts a server with a bucket b and a user c who may do just this.
func limited(t *testing.T, publish, subscribe []string) (c, admin *natsstore.Store) {
	t.Helper()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", publish, subscribe)))
	nc := srv.Connect(t, nats.UserInfo("admin", "admin"))
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	return offerStore(t, srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c"))), offerStore(t, nc)
}

// unoffering is what a candidate may publish but for offers.
var unoffering = []string{"$KV.b.g", "$JS.API.STREAM.INFO.KV_b", "$JS.API.DIRECT.GET.KV_b.$KV.b.g"}

func TestOfferOfWhoMayNotPublishItIsPermanent(t *testing.T) {
	t.Parallel()
	c, admin := limited(t, unoffering, []string{"_INBOX_c.>", "leader.b.g"})
	h := newTakers(t)
	h.take(admin, "taker")
	for range 3 { // the second is told as the first was
		trial.Outcome(t, c.Offer(natslab.Within(t), "g", []byte("denied")), store.Permanent, "leader-offer.b.g")
	}
	must(t, c, store.Write{Key: "g", Value: []byte("written all the same")})
	h.silentUntil(admin, "allowed")
}

// Of such an offer nobody can say that it reached nobody.
func TestOfferOfWhoMayNotHearAnswersEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, admin := limited(t, append([]string{"leader-offer.b.g"}, unoffering...), []string{"leader.b.g"})
	h := newTakers(t)
	stop := h.take(admin, "taker")
	h.hear(c, "heard")
	stop()
	vain(t, admin)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	trial.Outcome(t, c.Offer(ctx, "g", nil), store.Unknown)
}

func TestTakerWhoMayNotSubscribeWatchesAllTheSame(t *testing.T) {
	t.Parallel()
	c, admin := limited(t, unoffering, []string{"_INBOX_c.>", "leader.b.g"})
	h := newTakers(t)
	h.take(c, "before the watch")
	w := listen(t, c, "g")
	h.take(c, "after the watch")
	rev := uint64(0)
	for i := range 5 {
		rev = must(t, admin, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
		w.revision(rev)
		rev = must(t, c, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
		w.revision(rev)
		vain(t, admin)
	}
	if len(h.heard) > 0 {
		t.Errorf("heard: %v", <-h.heard)
	}
}

func TestMessageThatIsNoOfferIsNotHeard(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	h, s := newTakers(t), offerStore(t, nc)
	h.take(offerStore(t, srv.Connect(t)), "taker")
	h.hear(s, "before")
	if err := nc.Publish("leader-offer.b.g", bytes.Repeat([]byte("x"), store.MaxValue+1)); err != nil {
		t.Fatal(err)
	}
	h.silentUntil(s, "after")
}

// Whoever takes offers and answers them is none of ours.
func TestAnswerDoesNotEndAnOffer(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	s := offerStore(t, nc)
	answered := make(chan struct{}, 1)
	sub, err := nc.Subscribe("leader-offer.b.g", func(m *nats.Msg) {
		_ = m.Respond([]byte("thanks"))
		answered <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithCancel(natslab.Within(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Offer(ctx, "g", nil) }()
	<-answered
	select {
	case err := <-ended:
		t.Fatalf("the offer ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	trial.Outcome(t, <-ended, store.Unknown)
}

// A process may take part in thousands of elections. The test runs alone, since
// it counts the goroutines of the process.
func TestTakersCostNoGoroutine(t *testing.T) {
	const many = 5000
	srv := natslab.Start(t)
	h, s, taker := newTakers(t), offerStore(t, srv.Connect(t)), offerStore(t, srv.Connect(t))
	h.take(taker, "first")
	h.hear(s, "before")
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	stops := make([]func(), many)
	for i := range stops {
		var err error
		if stops[i], err = taker.TakeOffers(fmt.Sprintf("group.%d", i), func([]byte) {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := runtime.NumGoroutine() - goroutines; n > 10 {
		t.Errorf("%d takers cost %d goroutines", many, n)
	}
	// The server is in this process.
	t.Logf("a taker costs client and server %d bytes", (heapInUse()-heap)/many)
	for _, stop := range stops {
		stop()
	}
	h.hear(s, "after")
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A denial of the program's own may hide that the offer was denied. The offer is
// not made again to find out: those who take offers, and those who listen, would
// hear that.
func TestAnOfferIsMadeOnceBesideDenials(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", []string{mayAsk, "leader-offer.b.g"}, []string{mayAnswer})))
	nc := srv.Connect(t, nats.UserInfo("admin", "admin"))
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	admin := open(t, nc, "b", natsstore.Options{})
	heard := make(chan string, 1<<10)
	for _, take := range []func() (func(), error){
		func() (func(), error) {
			return admin.TakeOffers("g", func(b []byte) { heard <- "taken: " + string(b) })
		},
		func() (func(), error) {
			return admin.Listen("g", 3, func(b []byte) { heard <- "listened: " + string(b) })
		},
	} {
		stop, err := take()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	if err := nc.FlushWithContext(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	own := srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c"))
	c := open(t, own, "b", natsstore.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	offered := make(chan error, 1)
	go func() { offered <- c.Offer(ctx, "g", []byte("an offer")) }()
	for range 5 {
		before := own.LastError()
		if err := own.Publish("elsewhere", nil); err != nil {
			t.Fatal(err)
		}
		natslab.Eventually(t, "denial", func(context.Context) error {
			if own.LastError() == before { //nolint:errorlint // an equal error in another value is a new report
				return errors.New("not yet")
			}
			return nil
		})
	}
	trial.Outcome(t, <-offered, store.Unknown)
	if err := c.Broadcast(natslab.Within(t), "g", []byte("the last")); err != nil {
		t.Fatal(err)
	}
	var all []string
	for last := 0; last < 2; {
		select {
		case s := <-heard:
			all = append(all, s)
			if strings.HasSuffix(s, "the last") {
				last++
			}
		case <-natslab.Within(t).Done():
			t.Fatalf("heard only %q", all)
		}
	}
	slices.Sort(all)
	if want := []string{"listened: an offer", "listened: the last", "taken: an offer", "taken: the last"}; !slices.Equal(all, want) {
		t.Errorf("heard %q, want %q", all, want)
	}
}
