package registry

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A bench holds a registry without a connection: what it would send is noted.
type bench struct {
	*Registry

	reading map[string]func(store.Entry, bool)
	asking  []func(wire.State, bool)
	news    int // writes that were heard
	brings  bool
	lossy   bool
	traces  bool // the source loses nothing without a trace
	owed    []string
	doubted []string
	heard   []uint64 // revisions, as the watch of the key k heard them
}

func newBench() *bench {
	b := &bench{reading: make(map[string]func(store.Entry, bool)), brings: true}
	b.Registry = New(b, b, 2)
	return b
}

func (b *bench) Read(key string, _ time.Time, done func(store.Entry, bool)) { b.reading[key] = done }

func (b *bench) AskLeader(_ string, done func(wire.State, bool)) { b.asking = append(b.asking, done) }

func (b *bench) Heard()                 { b.news++ }
func (b *bench) Informed() bool         { return true }
func (b *bench) Call(_ any, f func())   { f() }
func (b *bench) Brings(string) bool     { return b.brings }
func (b *bench) Lossy(string) bool      { return b.lossy }
func (b *bench) Traceless(string) bool  { return !b.traces }
func (b *bench) DoubtFor(key string)    { b.doubted = append(b.doubted, key) }
func (b *bench) Owes(key string)        { b.owed = append(b.owed, key) }
func (b *bench) deliver(e store.Entry)  { b.heard = append(b.heard, e.Revision) }
func (b *bench) register() *register    { return b.keys["k"] }
func (b *bench) work(now time.Time)     { b.Work(now, func(time.Time) {}) }
func entry(revision uint64) store.Entry { return store.Entry{Key: "k", Revision: revision} }

// watch has the key k watched, and read for the first time.
func (b *bench) watch(revision uint64) *watch.Watch {
	w := watch.New(b.deliver)
	b.Add(w, "k")
	b.answer(revision)
	b.heard = nil
	return w
}

// answer has the key k read, and shows that revision.
func (b *bench) answer(revision uint64) {
	b.work(time.Now().Add(time.Hour))
	done := b.reading["k"]
	delete(b.reading, "k")
	done(entry(revision), true)
	if revision == 0 {
		b.confirm(leader(0, false), true)
	}
}

// confirm is the leader's answer to the question that was asked last, if any.
func (b *bench) confirm(state wire.State, ok bool) {
	if n := len(b.asking); n > 0 {
		done := b.asking[n-1]
		b.asking = b.asking[:n-1]
		done(state, ok)
	}
}

// leader is the answer of a stream's leader whose newest sequence is last, and
// which has a record of the key k or not.
func leader(last uint64, has bool) wire.State {
	names := wire.NewNames("b", jetstream.DefaultAPIPrefix)
	info := &jetstream.StreamInfo{}
	info.State.LastSeq = last
	if has {
		info.State.Subjects = map[string]uint64{"$KV.b.k": 1}
	}
	return names.State(info)
}

// A read shows at once what a busy source delivers one by one: its stragglers
// are not the writes to another stream. For who may not read, they are.
func TestStragglersOfABusySourceDoNotCountAsLostWrites(t *testing.T) {
	for _, unreadable := range []bool{false, true} {
		b := newBench()
		b.watch(14)
		if unreadable {
			b.Renounce("k")
		}
		for rev := uint64(5); rev < 14; rev++ {
			b.Registry.Heard(entry(rev))
		}
		r := b.register()
		if unreadable && r.entry.Revision >= 14 {
			t.Error("nothing was believed of a stream that began anew")
		}
		if !unreadable && (r.entry.Revision != 14 || !r.stale) {
			t.Errorf("the register is at revision %d, to be read %v", r.entry.Revision, r.stale)
		}
	}
}

// If a server answers a read after its timeout, the answer is believed, and the
// read that replaced the lost one decides.
func TestALateAnswerIsAStateUntilTheNextReadDecides(t *testing.T) {
	for _, c := range []struct {
		name     string
		between  func(b *bench)
		answer   uint64
		want     []uint64
		revision uint64
	}{
		{"nothing was known", func(*bench) {}, 5, []uint64{5}, 5},
		{"a later write was heard", func(b *bench) { b.Registry.Heard(entry(7)) }, 5, []uint64{7}, 7},
		{"an earlier write was heard", func(b *bench) { b.Registry.Heard(entry(4)) }, 5, []uint64{4, 5}, 5},
		{"it is another stream", func(b *bench) { b.Forget() }, 5, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench()
			b.Add(watch.New(b.deliver), "k")
			b.work(time.Now())
			lost := b.reading["k"]
			lost(store.Entry{}, false)
			c.between(b)
			lost(entry(c.answer), true)
			r := b.register()
			if !slices.Equal(b.heard, c.want) || r.entry.Revision != c.revision || r.doubts.Any() || !r.stale {
				t.Errorf("heard %v, revision %d, doubts %v, to be read %v", b.heard, r.entry.Revision, r.doubts.Any(), r.stale)
			}
			if want := min(len(c.want), 1); b.Begun() != want {
				t.Errorf("%d first states were told", b.Begun())
			}
		})
	}
}

// The store's work after each message must not grow with the number of keys: it
// only looks at the keys that are to be read or confirmed.
func TestRegistersAtRestAreNotLookedAt(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what string
		r    register
		rest bool
	}{
		{"being read, with nothing new since", register{reading: true}, true},
		{"to be read again after this read", register{reading: true, stale: true}, false},
		{"to be read later", register{stale: true, nextRead: now.Add(time.Minute)}, false},
		{"to be read by one who may not", register{stale: true, unreadable: true}, true},
		{"to be confirmed", register{confirmAt: now.Add(time.Minute)}, false},
	} {
		b := newBench()
		r := c.r
		b.unsettled[&r] = struct{}{}
		b.work(now)
		if rest := len(b.unsettled) == 0; rest != c.rest {
			t.Errorf("%s: at rest %v", c.what, rest)
		}
		b.toRead(&r)
		if len(b.unsettled) != 1 {
			t.Errorf("%s: forgotten", c.what)
		}
	}
}

// A message that a broken route took with it is not repeated, and the next
// write of its key may never come.
func TestSilentKeyIsReadPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.watch(5)
		// reads lets so much time pass, and returns whether the key is read.
		reads := func(d time.Duration) bool {
			time.Sleep(d)
			b.work(time.Now())
			return b.reading["k"] != nil
		}
		if reads(silenceMost - time.Second) {
			t.Error("it is read too soon")
		}
		b.Registry.Heard(entry(6))
		if reads(silenceMost-time.Second) || !reads(2*time.Second) {
			t.Error("its news do not put off the read, or for ever")
		}
		b.reading["k"](entry(8), true)
		delete(b.reading, "k")
		if want := []uint64{6, 8}; !slices.Equal(b.heard, want) {
			t.Errorf("heard %v, want %v", b.heard, want)
		}
		if !reads(silenceMost) {
			t.Error("it is read once only")
		}
		b.reading["k"](store.Entry{}, false)
		delete(b.reading, "k")
		if reads(silenceMost-time.Second) || !reads(time.Second) {
			t.Error("where nobody answers, it is not read with the next silence")
		}
		b.reading["k"](entry(8), true)
		delete(b.reading, "k")
		b.traces = true
		if reads(10 * silenceMost) {
			t.Error("it is read though its source numbers what it brings")
		}
	})
}

// A watch that waits for a read gets the read repeated if it failed.
func TestAReadThatSomebodyWaitsForIsRepeatedAlsoWhereItWasACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.watch(5)
		time.Sleep(silenceMost)
		b.work(time.Now())
		if b.reading["k"] == nil {
			t.Fatal("it is not read")
		}
		b.Registry.Read("k")
		b.reading["k"](store.Entry{}, false)
		delete(b.reading, "k")
		b.work(time.Now())
		if b.reading["k"] == nil {
			t.Error("it is not read again")
		}
	})
}

func TestKeysThatAreSilentAreReadOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.readsMost = 100
		w := watch.New(b.deliver)
		for i := range 3 {
			key := strconv.Itoa(i)
			b.Add(w, key)
			b.work(time.Now())
			b.reading[key](store.Entry{Key: key, Revision: 1}, true)
		}
		clear(b.reading)
		time.Sleep(silenceMost)
		for want := 1; want <= 3; want++ {
			var next time.Time
			b.Work(time.Now(), func(at time.Time) { next = at })
			if len(b.reading) != want || want < 3 && time.Until(next) != time.Second/checkMost {
				t.Fatalf("%d reads, the next in %v", len(b.reading), time.Until(next))
			}
			time.Sleep(time.Second / checkMost)
		}
		// The first of the order, one in the middle, the last, and the rest.
		for len(b.keys) > 0 {
			r := b.silent.first
			if len(b.keys)%2 == 0 {
				r = b.silent.last
			} else if r.later != nil {
				r = r.later
			}
			b.Remove(w, r.key)
			forth, back := 0, 0
			for r := b.silent.first; r != nil; r = r.later {
				forth++
			}
			for r := b.silent.last; r != nil; r = r.earlier {
				back++
			}
			if forth != len(b.keys) || back != len(b.keys) {
				t.Fatalf("%d keys, %d of them known by their silence, and %d from the end", len(b.keys), forth, back)
			}
		}
	})
}

// A consumer that was lost and made again brings the current state, so the keys
// need not be read as well.
func TestTheNextConsumerShowsTheCurrentState(t *testing.T) {
	for _, c := range []struct {
		name  string
		known uint64 // revision
		shown uint64 // by the next consumer; 0: nothing
		read  bool
		heard []uint64
	}{
		{"nothing was missed", 5, 5, false, []uint64{5}},
		{"a write was missed", 5, 7, false, []uint64{7}},
		{"the server lags, or lost what it knew", 5, 3, true, nil},
		{"the key is gone", 5, 0, true, nil},
		{"the key was absent and is so", 0, 0, false, []uint64{0}},
		{"the first write was missed", 0, 4, false, []uint64{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench()
			b.watch(c.known)
			b.Lost("k", true)
			r := b.register()
			if r.nextRead.IsZero() || !r.stale {
				t.Fatal("the key is read at once, or never")
			}
			if c.shown > 0 {
				b.Shown(entry(c.shown), 2)
			}
			b.Complete("k", 2)
			if r.stale != c.read || c.read && !r.nextRead.IsZero() && c.shown == 0 {
				t.Errorf("to be read: %v, at %v", r.stale, r.nextRead)
			}
			if !slices.Equal(b.heard, c.heard) {
				t.Errorf("delivered %v, want %v", b.heard, c.heard)
			}
		})
	}
}

// A key counts as watched when its source brings it, and is read until then.
func TestAKeyIsReadUntilItsConsumerNamesIt(t *testing.T) {
	b := newBench()
	b.brings = false
	b.watch(1)
	if r := b.register(); !r.stale || time.Until(r.nextRead) <= 0 {
		t.Error("it is not read again")
	}
	b.brings = true
	b.answer(1)
	if b.register().stale {
		t.Error("it is read for ever")
	}
}

// A read that shows a write which the source does not bring is a sign that the
// source is lost.
func TestAWriteThatAReadShowsIsOwed(t *testing.T) {
	b := newBench()
	b.watch(3)
	b.Registry.Read("k")
	b.answer(3)
	if len(b.owed) != 0 {
		t.Error("the first state, or the same again, is owed")
	}
	b.Registry.Read("k")
	b.answer(4)
	if !slices.Equal(b.owed, []string{"k"}) {
		t.Errorf("owed: %q", b.owed)
	}
}

// An older state than the known one is a replica's that lags, unless the
// stream's leader has lost it, too, or several reads agree.
func TestALaggingReplicaIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		name   string
		leader wire.State
		silent bool
		reads  int // until it is believed; 0: never
	}{
		{"the leader has the record", leader(9, true), false, 0},
		{"the leader lost it", leader(3, true), false, 5},
		{"the leader knows nothing of it", leader(9, false), false, 0},
		{"the leader does not answer", wire.State{}, true, 0},
	} {
		b := newBench()
		b.watch(5)
		believed := 0
		for n := 1; n < 20 && believed == 0; n++ {
			b.Registry.Read("k")
			b.answer(3)
			for _, done := range b.asking {
				done(c.leader, !c.silent)
			}
			b.asking = nil
			if b.register().entry.Revision == 3 {
				believed = n
			}
		}
		if believed != c.reads {
			t.Errorf("%s: believed after %d reads, want %d", c.name, believed, c.reads)
		}
	}
}

// While the servers of a cluster are restarted one by one, a stream has no
// leader now and then, and a replica that lags answers all the same. A user who
// may not ask the leader never gets an answer.
func TestALeaderThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.watch(5)
		begun := time.Now()
		for b.register().entry.Revision == 5 {
			b.Registry.Read("k")
			b.answer(3)
			for _, done := range b.asking {
				done(wire.State{}, false)
			}
			b.asking = nil
			time.Sleep(time.Second)
			if time.Since(begun) > time.Hour {
				t.Fatal("the reads are never believed")
			}
		}
		if after := time.Since(begun); after < watch.Leaderless || after > 2*watch.Leaderless {
			t.Errorf("the reads were believed after %v, want %v and a few reads", after, watch.Leaderless)
		}
		// A state that is known again starts a new count.
		b.Registry.Heard(entry(7))
		for range 10 {
			b.Registry.Read("k")
			b.answer(6)
			for _, done := range b.asking {
				done(wire.State{}, false)
			}
			b.asking = nil
		}
		if b.register().entry.Revision != 7 {
			t.Error("the next time was counted from the first")
		}
	})
}

func TestAnErasedKeyIsBelievedOnTheLeadersWord(t *testing.T) {
	b := newBench()
	b.watch(5)
	for range 5 {
		b.Registry.Read("k")
		b.answer(0)
		for _, done := range b.asking {
			done(leader(9, false), true)
		}
		b.asking = nil
	}
	if !slices.Equal(b.heard, []uint64{0}) {
		t.Errorf("delivered %v", b.heard)
	}
}

// In a cluster a subscription travels to the other servers by itself, so that
// the first read is repeated once.
func TestTheFirstReadIsConfirmedWhereWritesMayBeLost(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		b := newBench()
		b.lossy = lossy
		b.watch(1)
		again := !b.register().confirmAt.IsZero()
		if again != lossy {
			t.Errorf("lossy %v: read again %v", lossy, again)
		}
		if !again {
			continue
		}
		b.answer(1)
		if len(b.unsettled) != 0 {
			t.Error("it is confirmed for ever")
		}
	}
}

// The answers to reads must leave room in the queue for what is heard.
func TestReadsAtOnceAreBounded(t *testing.T) {
	b := newBench()
	w := watch.New(b.deliver)
	for i := range 10 {
		b.Add(w, strconv.Itoa(i))
	}
	for done := 0; done < 10; {
		b.work(time.Now())
		if n := len(b.reading); n == 0 || n > b.readsMost {
			t.Fatalf("%d reads at once", n)
		}
		for key, answer := range b.reading {
			delete(b.reading, key)
			answer(store.Entry{Key: key}, true)
			done++
		}
	}
	// A read of a key that is no longer watched makes room, too.
	b.Registry.Read("1")
	b.Registry.Read("2")
	b.work(time.Now())
	b.Remove(w, "1")
	b.Registry.Read("3")
	b.work(time.Now())
	if b.reading["3"] == nil {
		t.Error("a key that nobody watches is in the way")
	}
	b.reading["1"](entry(1), true) // and its answer is nobody's
	if b.reads != 2 {
		t.Errorf("%d reads under way", b.reads)
	}
}

// A failed read is repeated after a backoff, and a lost connection ends the
// wait.
func TestAFailedReadIsRepeated(t *testing.T) {
	b := newBench()
	b.Add(watch.New(b.deliver), "k")
	for range 3 {
		b.work(time.Now().Add(time.Hour))
		b.reading["k"](store.Entry{}, false)
		if r := b.register(); !r.stale || time.Until(r.nextRead) <= 0 || time.Until(r.nextRead) > watch.RetryMost {
			t.Fatalf("read again: %v, in %v", r.stale, time.Until(r.nextRead))
		}
	}
	b.Reconnected()
	if r := b.register(); !r.nextRead.IsZero() || r.failures != 0 {
		t.Error("the wait goes on after the connection is back")
	}
}

// A watch receives a write once, and after an interruption once more.
func TestEachWatchHearsAStateOnce(t *testing.T) {
	b := newBench()
	b.watch(1)
	b.Registry.Heard(entry(2))
	b.Registry.Heard(entry(2))
	if !slices.Equal(b.heard, []uint64{2}) || b.news != 1 {
		t.Errorf("delivered %v, of %d news", b.heard, b.news)
	}
	later := []uint64{}
	w := watch.New(func(e store.Entry) { later = append(later, e.Revision) })
	b.Add(w, "k")
	b.answer(2)
	if !slices.Equal(b.heard, []uint64{2}) || !slices.Equal(later, []uint64{2}) {
		t.Errorf("delivered %v, to the later watch %v", b.heard, later)
	}
	b.Missed()
	b.answer(2)
	if !slices.Equal(b.heard, []uint64{2, 2}) {
		t.Errorf("after an interruption: %v", b.heard)
	}
	if b.Remove(w, "k") || b.Remove(w, "other") {
		t.Error("a key that is watched counts as unwatched")
	}
}

// The store polls what no source brings, and must not become the load that
// keeps sources from standing.
func TestPollingOfManyKeysIsBounded(t *testing.T) {
	b := newBench()
	if got := b.pollEvery(); got != watch.RetryMost {
		t.Errorf("a few keys: each %v", got)
	}
	for i := range 5000 {
		b.keys[strconv.Itoa(i)] = nil
	}
	if got := float64(len(b.keys)) / b.pollEvery().Seconds(); got > pollMost {
		t.Errorf("%v reads in a second", got)
	}
}

// The end of a store stops all watches at once, in the midst of a delivery too,
// and removes none.
func TestStoppedWatchGetsNoEntries(t *testing.T) {
	for _, watches := range []int{1, 2} {
		b := newBench()
		all := []*watch.Watch{b.watch(1)}
		for range watches - 1 {
			all = append(all, b.watch(1))
		}
		for _, w := range all {
			w.Stop()
		}
		b.Registry.Heard(entry(2))
		if len(b.heard) > 0 {
			t.Errorf("%d stopped watches heard %v", watches, b.heard)
		}
	}
}

// If the server took a subscription away, it brings nothing, and the connection
// stays up: each cause of a read also makes the registry doubt the source.
func TestEachReadDoubtsTheSource(t *testing.T) {
	b := newBench()
	b.watch(1)
	b.Registry.Read("k")
	b.answer(2)
	if !slices.Equal(b.doubted, []string{"k", "k"}) {
		t.Errorf("doubted %q", b.doubted)
	}
	b.Renounce("k") // and of a user who may not read, the clock has
	b.work(time.Now().Add(2 * silenceMost))
	if len(b.doubted) != 3 || len(b.reading) != 0 {
		t.Errorf("doubted %q, read %d", b.doubted, len(b.reading))
	}
}
