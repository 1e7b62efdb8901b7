package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// The claims about store.Offerer. A store that does not implement it is not
// examined: an election does without.
var offerClaims = []claim{
	{"OfferReachesATaker", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		a.take(x.offerer())
		a.hears(o, []byte("yours"))
	}},
	{"OfferReachesATakerOfTheSameClient", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		a.take(o)
		a.hears(o, []byte("yours"))
	}},
	{"OfferReachesOneOfManyTakers", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		twice := x.offerer()
		for _, c := range []store.Offerer{x.offerer(), x.offerer(), twice, twice} {
			a.take(c)
		}
		var made [30]int
		for i := range made {
			made[i] = a.hears(o, fmt.Append(nil, i))
		}
		x.silent()
		for i := range made {
			if n := a.count(fmt.Append(nil, i)); n > made[i] {
				x.Errorf("an offer was made %d times and heard %d times", made[i], n)
			}
		}
	}},
	{"OfferReachesNoTakerOfAnotherKey", 0, func(x *exam) {
		o, a := x.offerer(), x.audience("team.a")
		others := []*audience{}
		for _, k := range []string{"team", "a", "team.b", "team.a.b", "x.team.a", "team/a", "team.A"} {
			other := x.audience(k)
			others = append(others, other)
			other.hears(o, []byte("theirs"), other.take(x.offerer()))
		}
		x.offersInVain(o, "team.a")
		a.take(x.offerer())
		for i := range 10 {
			a.hears(o, fmt.Append(nil, i))
		}
		x.silent()
		for _, other := range others {
			if n := other.all(); n != other.count([]byte("theirs")) {
				x.Errorf("a taker of key %q heard an offer for another key", other.key)
			}
		}
	}},
	{"OfferThatNobodyTakesFailsAtOnce", 0, func(x *exam) {
		x.offersInVain(x.offerer(), key)
	}},
	{"OfferEndsWithItsContext", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		a.hears(o, []byte("before"), a.take(x.offerer()))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- o.Offer(ctx, key, []byte("offer")) }()
		select {
		case err := <-ended:
			x.Fatalf("Offer returned before its context was done, though somebody takes offers: %v", err)
		case <-time.After(x.caps.Silence):
		}
		cancel()
		x.returns("Offer", func() {
			if err := <-ended; store.Classify(err) != store.Unknown {
				x.Errorf("an offer whose context ended: %v (%v); want an unknown outcome", err, store.Classify(err))
			}
		})
	}},
	{"OfferUnderACancelledContextReturns", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		a.hears(o, []byte("before"), a.take(x.offerer()))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		x.returns("Offer", func() {
			if c := store.Classify(o.Offer(ctx, key, []byte("late"))); c != store.Transient && c != store.Unknown {
				x.Errorf("an offer under a cancelled context is %v; want transient or unknown", c)
			}
		})
	}},
	{"OfferWritesNothing", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		rev := x.put(o, key, 0, "held")
		a.hears(o, []byte("yours"), a.take(x.offerer()))
		x.holds(o, key, rev, []byte("held"), false)
		x.must(o, store.Write{Key: key, Expected: rev, Value: []byte("vacant"), Tombstone: true})
	}},
	{"OfferArrivesAsItWasMade", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		taker := a.take(x.offerer())
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for _, offer := range [][]byte{[]byte("first"), {}, {0}, all, bytes.Repeat([]byte("longest "), store.MaxValue/8), []byte("last")} {
			sent := bytes.Clone(offer)
			a.hears(o, sent, taker)
			for i := range sent {
				sent[i]++ // the sender's own again
			}
			if n := a.count(offer); n == 0 {
				x.Errorf("an offer of %d bytes changed with the sender's copy of it", len(offer))
			}
		}
	}},
	{"OfferThatNoStoreCarriesIsRefused", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		a.hears(o, []byte("before"), a.take(x.offerer()))
		for _, k := range []string{"", "a..b", ".a", "a.", "a.*", ">", "*", "a b", strings.Repeat("k", store.MaxKey+1)} {
			x.refusesOffer(o, k, 1)
			if stop, err := o.TakeOffers(k, func([]byte) {}); !errors.Is(err, store.ErrInvalid) {
				x.Errorf("TakeOffers(%q): %v; want store.ErrInvalid", k, err)
				if err == nil {
					stop()
				}
			}
		}
		x.refusesOffer(o, key, store.MaxValue+1)
	}},
	{"CallsOfATakerDoNotOverlap", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key) // judges overlapping
		a.hears(o, []byte("before"), a.take(x.offerer()))
		x.poll("offers to be heard", func() bool {
			a.hearsSomeOf(o, 20)
			return a.all() > 20
		})
	}},
	{"StoppedTakerHearsNothing", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		twice := x.offerer()
		left := []*taker{a.take(x.offerer()), a.take(twice), a.take(twice)}
		for len(left) > 0 {
			offer := fmt.Appendf(nil, "to one of %d", len(left))
			a.hears(o, offer, left...)
			i := slices.IndexFunc(left, func(t *taker) bool { return a.count(offer, t) > 0 })
			left[i].end() // judges that it hears no more
			x.returns("the second stop", left[i].stop)
			left = slices.Delete(left, i, i+1)
		}
		x.offersInVain(o, key)
		x.silent()
		a.hears(o, []byte("again"), a.take(twice))
	}},
	{"StopOfATakerMayBeCalledAtOnceByMany", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		taker := a.take(o)
		x.returns("eight stops", func() {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(taker.stop)
			}
			wg.Wait()
		})
	}},
	{"StopWithinATakerReturns", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		taker := a.take(x.offerer())
		taker.during = func() {
			taker.stop()
			taker.stop()
		}
		a.hears(o, []byte("the last"), taker)
		x.offersInVain(o, key)
		x.silent()
		if n := a.all(); n != 1 {
			x.Errorf("a taker that stops at the first offer heard %d", n)
		}
		x.returns("stop after stop within the taker", taker.stop)
	}},
	{"StopWaitsForARunningTaker", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		taker := a.take(x.offerer())
		released := make(chan struct{})
		release := sync.OnceFunc(func() { close(released) })
		defer release()
		var ended atomic.Bool
		taker.during = func() {
			<-released
			ended.Store(true)
		}
		a.hears(o, []byte("offer"), taker)
		stopped := make(chan bool, 1)
		go func() { taker.stop(); stopped <- ended.Load() }()
		x.silent()
		release()
		x.returns("stop", func() {
			if !<-stopped {
				x.Error("stop returned while the taker was running")
			}
		})
	}},
	{"TakersAndWatchesOfOneClientOutliveEachOther", watching, func(x *exam) {
		w, o, a := x.watcher(), x.offerer(), x.audience(key)
		c, ok := w.(store.Offerer)
		if !ok {
			x.Skip("the store is no store.Offerer")
		}
		for i := range uint64(3) {
			r, taker := x.watch(w, key), a.take(c)
			rev := x.put(w, key, x.get(w, key).Revision, fmt.Sprint(i))
			r.reaches(key, rev, fmt.Sprint(i), false)
			a.hears(o, []byte("beside the watch"), taker)
			r.end()
			a.hears(o, fmt.Appendf(nil, "after the watch %d", i), taker)
			r = x.watch(w, key)
			taker.end()
			r.reaches(key, x.put(w, key, rev, "after the taker"), "after the taker", false)
			r.end()
		}
	}},
	{"EndedTakersLeaveNoGoroutine", 0, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		x.leavesNoGoroutine("ended takers", 50, func() {
			taker := a.take(o)
			a.hears(o, []byte("offer"), taker)
			taker.end()
			a.forget()
		})
	}},
	{"TakerHearsAfterAnInterruption", interrupting, func(x *exam) {
		o, a := x.offerer(), x.audience(key)
		taker := a.take(x.offerer())
		a.hears(o, []byte("before"), taker)
		for i := range 3 {
			x.interrupt()
			a.hears(o, fmt.Append(nil, i), taker)
		}
	}},
}

// offerer opens a client that can carry offers, or skips the claim.
func (x *exam) offerer() store.Offerer {
	x.Helper()
	o, ok := x.open().(store.Offerer)
	if !ok {
		x.Skip("the store is no store.Offerer")
	}
	return o
}

// offersInVain demands that an offer for the key is told, before its context
// ends, that nobody takes it. That the last taker has gone may take its time to
// be known.
func (x *exam) offersInVain(o store.Offerer, k string) {
	x.Helper()
	x.poll("an offer that nobody takes to be told so", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), offerFor)
		defer cancel()
		var err error
		x.returns("Offer", func() { err = o.Offer(ctx, k, []byte("in vain")) })
		switch c := store.Classify(err); c {
		case store.Transient:
			return ctx.Err() == nil
		case store.Unknown:
			return false
		default:
			x.Fatalf("Offer for key %q, which nobody takes: %v (%v); want a transient failure", k, err, c)
			return false
		}
	})
}

// refusesOffer demands that the offer is refused as invalid.
func (x *exam) refusesOffer(o store.Offerer, k string, size int) {
	x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), offerFor)
	defer cancel()
	x.returns("Offer", func() {
		if err := o.Offer(ctx, k, make([]byte, size)); !errors.Is(err, store.ErrInvalid) {
			x.Errorf("Offer of %d bytes for key %.40q: %v; want store.ErrInvalid", size, k, err)
		}
	})
}

// An audience is those who take offers for one key.
type audience struct {
	x      *exam
	key    string
	takers []*taker
	news   chan struct{} // holds a value if something was heard since the last look
}

// A taker keeps the offers that it hears, and finds fault with what no store
// may do.
type taker struct {
	a      *audience
	stop   func()
	during func() // set before the first offer, if at all; runs within each call
	inside atomic.Int32

	mu      sync.Mutex
	heard   [][]byte
	stopped bool
	faults  []string
}

func (x *exam) audience(k string) *audience {
	return &audience{x: x, key: k, news: make(chan struct{}, 1)}
}

// take has a client take offers until the claim ends.
func (a *audience) take(o store.Offerer) *taker {
	a.x.Helper()
	return a.join(o.TakeOffers)
}

// join registers one of the audience.
func (a *audience) join(register func(key string, deliver func([]byte)) (stop func(), err error)) *taker {
	a.x.Helper()
	t := &taker{a: a}
	stop, err := register(a.key, t.deliver)
	if err != nil {
		a.x.Fatalf("registering for key %q: %v", a.key, err)
	}
	t.stop = stop
	a.takers = append(a.takers, t)
	a.x.Cleanup(t.end)
	return t
}

// deliver is what the store calls.
func (t *taker) deliver(offer []byte) {
	if t.inside.Add(1) != 1 {
		t.fault("calls of deliver overlap")
	}
	runtime.Gosched() // an overlapping call gets its chance to be seen
	t.mu.Lock()
	if t.stopped {
		t.faults = append(t.faults, "heard an offer after its end")
	}
	t.heard = append(t.heard, offer)
	t.mu.Unlock()
	select {
	case t.a.news <- struct{}{}:
	default:
	}
	if t.during != nil {
		t.during()
	}
	t.inside.Add(-1)
}

func (t *taker) fault(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, text)
}

// end stops the taker and reports the faults that it had.
func (t *taker) end() {
	t.a.x.Helper()
	t.a.x.returns("stop", t.stop)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for _, f := range t.faults {
		t.a.x.Errorf("taker of offers for %q: %s", t.a.key, f)
	}
	t.faults = nil
}

// count returns how often the takers (all of the audience, if none are named)
// heard the offer.
func (a *audience) count(offer []byte, takers ...*taker) (n int) {
	if len(takers) == 0 {
		takers = a.takers
	}
	for _, t := range takers {
		t.mu.Lock()
		for _, heard := range t.heard {
			if bytes.Equal(heard, offer) {
				n++
			}
		}
		t.mu.Unlock()
	}
	return n
}

// all returns how many offers the audience heard.
func (a *audience) all() (n int) {
	for _, t := range a.takers {
		t.mu.Lock()
		n += len(t.heard)
		t.mu.Unlock()
	}
	return n
}

// forget lets the audience consist of nobody again.
func (a *audience) forget() { a.takers = nil }

// hears offers until one of the takers (of the audience, if none are named)
// hears it, and returns how many of the offers may have reached somebody. It
// repeats an offer only when the one before has certainly reached nobody, or
// another taker, or when it was lost for long: that somebody takes offers is
// known everywhere only after a while.
func (a *audience) hears(o store.Offerer, offer []byte, takers ...*taker) (made int) {
	a.x.Helper()
	before := a.count(offer, takers...)
	a.x.poll(fmt.Sprintf("an offer of %d bytes to be heard", len(offer)), func() bool {
		if a.try(o, offer, made == 0) {
			made++
		}
		return a.count(offer, takers...) > before
	})
	return made
}

// try makes one offer that lasts until the audience hears it, and reports
// whether it may have reached somebody. What is heard is certainly of this
// offer only if it is the first of its kind.
func (a *audience) try(o store.Offerer, offer []byte, first bool) bool {
	a.x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), offerFor)
	defer cancel()
	before := a.count(offer)
	ended := make(chan error, 1)
	go func() { ended <- o.Offer(ctx, a.key, offer) }()
	limit := time.After(a.x.caps.Patience)
	for {
		select {
		case <-a.news:
			if a.count(offer) > before {
				cancel()
			}
		case err := <-ended:
			return a.judge(ctx, err, first && a.count(offer) > before)
		case <-limit:
			a.x.Fatalf("Offer did not return within %v", a.x.caps.Patience)
		}
	}
}

// offerFor is how long an offer lasts that is made again if it is lost.
const offerFor = 200 * time.Millisecond

// judge fails the test if an offer ended wrongly, and reports whether it may
// have reached somebody.
func (a *audience) judge(ctx context.Context, err error, heard bool) bool {
	a.x.Helper()
	switch c := store.Classify(err); {
	case c == store.Transient && heard:
		a.x.Fatalf("an offer was heard that ended as one that reached nobody: %v", err)
	case c != store.Transient && c != store.Unknown:
		a.x.Fatalf("Offer for key %q: %v (%v); want a transient or an unknown outcome", a.key, err, c)
	case c == store.Unknown && ctx.Err() == nil:
		a.x.Fatalf("Offer for key %q returned before its context was done: %v", a.key, err)
	}
	return store.Classify(err) == store.Unknown
}

// hearsSomeOf makes n offers at once, until some of them are heard or all are
// lost.
func (a *audience) hearsSomeOf(o store.Offerer, n int) {
	a.x.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), offerFor)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _ = o.Offer(ctx, a.key, fmt.Append(nil, i)) })
	}
	select {
	case <-a.news:
	case <-ctx.Done():
	}
	cancel()
	a.x.returns("offers at once", wg.Wait)
}
