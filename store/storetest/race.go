package storetest

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/seed-ff2cb582/leader/store"
)

// An attempt is one racer's write and its answer.
type attempt struct {
	write store.Write
	rev   uint64
	err   error
}

// race sends n writes that all expect the same revision at once, distributed
// over the clients, and returns their answers.
func (x *exam) race(clients []store.Store, n int, expected uint64, tombstone func(i int) bool) []attempt {
	attempts := make([]attempt, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range attempts {
		a := &attempts[i]
		a.write = store.Write{Key: key, Expected: expected, Value: fmt.Appendf(nil, "racer %d after %d", i, expected), Tombstone: tombstone(i)}
		wg.Go(func() {
			<-start
			a.rev, a.err = x.cas(clients[i%len(clients)], a.write)
		})
	}
	close(start)
	wg.Wait()
	return attempts
}

// winner requires that exactly one attempt won, that every answer is true, and
// that the register shows it. It returns the register's revision.
func (x *exam) winner(s store.Store, attempts []attempt) uint64 {
	x.Helper()
	var winners []attempt
	possible := map[string]bool{}
	for _, a := range attempts {
		switch store.Classify(a.err) {
		case store.OK:
			winners = append(winners, a)
		case store.Unknown:
			possible[string(a.write.Value)] = true
		case store.Conflict:
		default:
			x.Fatalf("a racing write returned %v; want OK, a conflict or an unknown outcome", a.err)
		}
	}
	if len(winners) > 1 {
		x.Fatalf("%d of %d writes that expected the same revision were acknowledged: %+v", len(winners), len(attempts), winners)
	}
	if len(winners) == 1 {
		w := winners[0]
		x.holds(s, key, w.rev, w.write.Value, w.write.Tombstone)
		return w.rev
	}
	e := x.reach(s, key, attempts[0].write.Expected+1)
	if !possible[string(e.Value)] {
		x.Fatalf("no racing write succeeded, but the register holds %s, whose write returned a conflict", brief(e.Value))
	}
	return e.Revision
}

func never(int) bool   { return false }
func odd(i int) bool   { return i%2 == 1 }
func always(int) bool  { return true }
func third(i int) bool { return i%3 == 0 }

var raceClaims = []claim{
	{"OneOfFiftyCreatesWins", async, func(x *exam) {
		cs := x.clients(5)
		x.winner(cs[0], x.race(cs, 50, 0, never))
	}},
	{"OneOfFiftyCreatesWinsOnOneClient", async, func(x *exam) {
		cs := x.clients(1)
		x.winner(cs[0], x.race(cs, 50, 0, third))
	}},
	{"OneOfFiftyTakeoversOfATombstoneWins", 0, func(x *exam) {
		cs := x.clients(5)
		rev := x.must(cs[0], store.Write{Key: key, Value: []byte("vacant"), Tombstone: true})
		x.winner(cs[1], x.race(cs, 50, rev, never))
	}},
	{"OneOfFiftyReleasesWins", 0, func(x *exam) {
		cs := x.clients(5)
		x.winner(cs[1], x.race(cs, 50, x.put(cs[0], key, 0, "held"), always))
	}},
	{"OneOfTenWinsInEachOfManyRounds", 0, func(x *exam) {
		cs, rev := x.clients(5), uint64(0)
		for range 30 {
			rev = x.winner(cs[0], x.race(cs, 10, rev, odd))
		}
	}},
	{"OneOfFiftyTakeoversAfterForeignDeletionWins", deleting, func(x *exam) {
		cs := x.clients(5)
		e := x.deleted(cs[0], key, x.put(cs[0], key, 0, "held"))
		x.winner(cs[1], x.race(cs, 50, e.Revision, never))
	}},
	{"WriteOrForeignDeletionWinsButNotHalf", deleting, func(x *exam) {
		cs, rev := x.clients(2), uint64(0)
		for i := range 20 {
			rev = x.raceDeletion(cs, rev, fmt.Sprint(i))
		}
	}},
	{"CounterLosesNoIncrement", async, func(x *exam) { x.count(x.clients(8), 25) }},
	{"TwoHundredKeysAtOnce", 0, func(x *exam) {
		cs := x.clients(4)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { x.chain(cs[i%len(cs)], fmt.Sprintf("groups/g%d", i), 5) })
		}
		wg.Wait()
		for i := range 200 {
			x.reach(cs[0], fmt.Sprintf("groups/g%d", i), 1)
		}
	}},
	{"MixedCallsMayBeMadeAtOnce", 0, func(x *exam) {
		s := x.open()
		var wg sync.WaitGroup
		for i := range 8 {
			k := "k" + strconv.Itoa(i%3)
			wg.Go(func() { x.churn(s, k, 20) })
			wg.Go(func() { x.glance(s, k, 20) })
		}
		wg.Wait()
	}},
}

// raceDeletion lets a foreign deletion and a write race, and returns the
// register's revision afterwards: the write is last, or the deletion is.
func (x *exam) raceDeletion(cs []store.Store, before uint64, value string) uint64 {
	x.Helper()
	held := x.put(cs[0], key, before, "held "+value)
	var wg sync.WaitGroup
	var a attempt
	wg.Go(func() {
		a.rev, a.err = x.cas(cs[1], store.Write{Key: key, Expected: held, Value: []byte(value)})
	})
	if err := x.h.Delete(key); err != nil {
		x.Fatalf("Harness.Delete: %v", err)
	}
	wg.Wait()
	e := x.after(cs[0], key, held, "the deletion", func(e store.Entry) bool { return e.Tombstone })
	switch store.Classify(a.err) {
	case store.OK:
		if e.Revision != 0 && e.Revision < a.rev {
			x.Fatalf("the register is deleted at revision %d, before the acknowledged write %d", e.Revision, a.rev)
		}
	case store.Conflict, store.Unknown:
	default:
		x.Fatalf("a write that raced with a deletion returned %v", a.err)
	}
	return e.Revision
}

// count lets every client add one to the same register several times, by
// reading and compare-and-swap, and demands that the sum is right: the whole
// history is then linearizable.
func (x *exam) count(cs []store.Store, times int) {
	var wg sync.WaitGroup
	for _, s := range cs {
		wg.Go(func() {
			for range times {
				x.increment(s)
			}
		})
	}
	wg.Wait()
	want, e := len(cs)*times, store.Entry{}
	if x.Failed() {
		return
	}
	x.poll(fmt.Sprintf("the counter to read %d", want), func() bool {
		e = x.get(cs[0], key)
		n, _ := strconv.Atoi(string(e.Value))
		if n > want {
			x.Fatalf("the counter reads %d after %d increments", n, want)
		}
		return n == want
	})
}

// increment adds one to the register.
func (x *exam) increment(s store.Store) {
	ctx, cancel := x.within()
	defer cancel()
	for ctx.Err() == nil {
		e, err := s.Get(ctx, key)
		if err != nil {
			continue
		}
		n, _ := strconv.Atoi(string(e.Value))
		_, err = x.cas(s, store.Write{Key: key, Expected: e.Revision, Value: []byte(strconv.Itoa(n + 1))})
		switch store.Classify(err) {
		case store.OK:
			return
		case store.Conflict:
		default:
			x.Errorf("an increment returned %v", err)
			return
		}
	}
	x.Errorf("an increment did not succeed within %v", x.caps.Patience)
}

// chain writes the key n times, each time expecting the revision before.
func (x *exam) chain(s store.Store, k string, n int) {
	rev := uint64(0)
	for i := range n {
		next, err := x.cas(s, store.Write{Key: k, Expected: rev, Value: []byte(strconv.Itoa(i))})
		if err != nil {
			x.Errorf("key %q, write %d: %v", k, i, err)
			return
		}
		rev = next
	}
}

// churn writes the key n times in competition with others.
func (x *exam) churn(s store.Store, k string, n int) {
	for range n {
		e, err := x.read(s, k)
		if err != nil {
			x.Errorf("Get(%q): %v", k, err)
			return
		}
		_, err = x.cas(s, store.Write{Key: k, Expected: e.Revision, Value: []byte("churn")})
		if c := store.Classify(err); c != store.OK && c != store.Conflict {
			x.Errorf("CompareAndSwap(%q): %v", k, err)
			return
		}
	}
}

// glance reads and watches the key n times while others write it.
func (x *exam) glance(s store.Store, k string, n int) {
	ctx, cancel := x.within()
	defer cancel()
	w, _ := s.(store.Watcher)
	for range n {
		if _, err := x.read(s, k); err != nil {
			x.Errorf("Get(%q): %v", k, err)
			return
		}
		if w == nil || x.caps.NoWatch != "" {
			continue
		}
		stop, err := w.Watch(ctx, []string{k}, func(store.Entry) {})
		switch {
		case err == nil:
			stop()
		case store.Classify(err) != store.Transient:
			x.Errorf("Watch(%q): %v", k, err)
			return
		}
	}
}
