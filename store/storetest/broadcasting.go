package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
)

// The claims about store.Broadcaster. A store that does not implement it is not
// examined: an election does without.
var broadcastClaims = []claim{
	{"BroadcastReachesAllListeners", 0, func(x *exam) {
		b, a := x.broadcaster(), x.audience(key)
		twice := x.broadcaster()
		for _, c := range []store.Broadcaster{b, x.broadcaster(), twice, twice} {
			a.listen(c, manyMessages)
		}
		for i := range 10 {
			a.allHear(b, fmt.Append(nil, i))
		}
	}},
	{"BroadcastReachesNoListenerOfAnotherKey", 0, func(x *exam) {
		b, a, other := x.broadcaster(), x.audience("team.a"), x.audience("team.b")
		a.listen(x.broadcaster(), manyMessages)
		other.listen(x.broadcaster(), manyMessages)
		other.allHear(b, []byte("theirs"))
		for i := range 10 {
			a.allHear(b, fmt.Append(nil, i))
		}
		x.silent()
		if n := other.all(); n != other.count([]byte("theirs")) {
			x.Error("a listener of key \"team.b\" heard what was broadcast for \"team.a\"")
		}
	}},
	{"ListenerHearsNoMoreThanItAskedFor", 0, func(x *exam) {
		b, a, all := x.broadcaster(), x.audience(key), x.audience(key)
		all.listen(x.broadcaster(), manyMessages)
		a.listen(x.broadcaster(), 3)
		a.allHear(b, []byte("first"))
		for i := range 10 {
			all.allHear(b, fmt.Append(nil, i))
		}
		x.poll("a listener to hear as much as it asked for", func() bool { return a.all() == 3 })
		x.silent()
		if n := a.all(); n != 3 {
			x.Errorf("a listener that asked for 3 messages heard %d", n)
		}
	}},
	{"BroadcastWritesNothing", 0, func(x *exam) {
		b, a := x.broadcaster(), x.audience(key)
		x.broadcasts(b, key, []byte("that nobody hears"))
		rev := x.put(b, key, 0, "held")
		a.listen(x.broadcaster(), manyMessages)
		a.allHear(b, []byte("message"))
		x.holds(b, key, rev, []byte("held"), false)
	}},
	{"EndedListenersHearNothing", 0, func(x *exam) {
		b, a := x.broadcaster(), x.audience(key)
		for range 3 {
			l := a.listen(x.broadcaster(), manyMessages)
			a.allHear(b, []byte("before"))
			l.end()
			a.forget()
		}
		a.listen(x.broadcaster(), manyMessages)
		a.allHear(b, []byte("after"))
		x.silent()
	}},
	{"BroadcastRefusesWhatNoStoreHasToCarry", 0, func(x *exam) {
		b, a := x.broadcaster(), x.audience(key)
		a.listen(x.broadcaster(), manyMessages)
		a.allHear(b, bytes.Repeat([]byte("longest "), store.MaxValue/8))
		ctx, cancel := x.within()
		defer cancel()
		for k, message := range map[string][]byte{"": nil, "a..b": nil, key: make([]byte, store.MaxValue+1)} {
			if err := b.Broadcast(ctx, k, message); !errors.Is(err, store.ErrInvalid) {
				x.Errorf("Broadcast of %d bytes for key %q: %v; want store.ErrInvalid", len(message), k, err)
			}
		}
		if _, err := b.Listen("a..b", 1, func([]byte) {}); !errors.Is(err, store.ErrInvalid) {
			x.Errorf("Listen for key \"a..b\": %v; want store.ErrInvalid", err)
		}
	}},
}

// manyMessages are more than any claim broadcasts.
const manyMessages = 1 << 20

// broadcaster opens a client that can broadcast, or skips the claim.
func (x *exam) broadcaster() store.Broadcaster {
	x.Helper()
	b, ok := x.open().(store.Broadcaster)
	if !ok {
		x.Skip("the store is no store.Broadcaster")
	}
	return b
}

func (x *exam) broadcasts(b store.Broadcaster, k string, message []byte) {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	if err := b.Broadcast(ctx, k, message); err != nil && store.Classify(err) != store.Transient {
		x.Fatalf("Broadcast for key %q: %v", k, err)
	}
}

// listen has a client listen until the claim ends.
func (a *audience) listen(b store.Broadcaster, most int) *taker {
	a.x.Helper()
	return a.join(func(k string, deliver func([]byte)) (func(), error) { return b.Listen(k, most, deliver) })
}

// allHear broadcasts the message again and again, as it may be lost, until all
// who listen have heard it.
func (a *audience) allHear(b store.Broadcaster, message []byte) {
	a.x.Helper()
	a.x.poll("all listeners to hear a broadcast", func() bool {
		a.x.broadcasts(b, a.key, message)
		for _, t := range a.takers {
			if a.count(message, t) == 0 {
				return false
			}
		}
		return true
	})
}
