package faultstore

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A Fault is a kind of thing that goes wrong.
type Fault uint8

// The faults.
const (
	DelayedRequest Fault = iota // a call reached the store late
	DelayedReply                // an answer reached the caller late
	LostRequest                 // a call never reached the store
	LostReply                   // a write was applied, and the caller never heard of it
	LateCommit                  // a write was applied after its caller had given up
	LateRefusal                 // a write arrived after its caller had given up, at another revision
	Refusal                     // the store refused to look at a call
	Denial                      // the store refused a call permanently
	FalseConflict               // a write was refused as a conflict although the revision matched
	StaleRead                   // a read answered an earlier state than the present one
	DelayedEvent                // a watch heard of a change late
	LostEvent                   // a watch did not hear of a change
	RepeatedEvent               // a watch heard of a change again
	Gap                         // a watch was deaf for a while, and then heard the current state
	Partition                   // a partition swallowed a call, an answer or an event
	Forgotten                   // the store lost acknowledged writes
	FalseReport                 // a client made a false report of its link
	kinds
)

// String returns the fault's name in lower case.
func (f Fault) String() string {
	names := [kinds]string{
		"delayed request", "delayed reply", "lost request", "lost reply", "late commit", "late refusal", "refusal", "denial",
		"false conflict", "stale read", "delayed event", "lost event", "repeated event", "gap", "partition", "forgotten",
		"false report",
	}
	if f < kinds {
		return names[f]
	}
	return "fault " + strconv.Itoa(int(f))
}

// An Op is what a call asks for.
type Op uint8

// The operations.
const (
	Get Op = iota
	CompareAndSwap
	Watch
	Event // not a call: a change on its way to a watch
	Check // of a store that reports its age
)

// A Call is what a policy knows when it decides.
type Call struct {
	Client string
	Op     Op
	Key    string      // of Watch: the first key, or the pattern
	N      uint64      // how many calls with the same Client, Op and Key came before
	Write  store.Write // of CompareAndSwap; its value must not be changed
}

// A Fate is what happens to a call. The zero Fate is a perfect network's. Where
// several fields are set, they happen in the order of the call's way: it is
// lost, or arrives late, is refused or performed, and answered late or never.
type Fate struct {
	// Delay passes before the call reaches the store, or the event its watch. A
	// write whose caller gives up meanwhile is applied nevertheless, unless a
	// partition has started.
	Delay time.Duration
	// Lose lets the call or the event vanish: the caller waits until its
	// context ends, and the call never has an effect.
	Lose bool
	// Late, if positive, holds a write back until so long after the deadline of
	// its caller's context (or after now, if it has none). Neither a partition
	// nor its end stops it: it is under way already, in a reconnect buffer or in
	// the log of a server.
	Late time.Duration
	// Refuse lets the call fail with store.ErrTransient, without an effect.
	Refuse bool
	// Deny lets the call fail with store.ErrPermanent, without an effect: the
	// user lacks a right, or the bucket is gone.
	Deny bool
	// Conflict lets a write fail with store.ErrConflict, without an effect,
	// although the revision matches: a replica that is cut off answers so.
	Conflict bool
	// Stale lets a read answer the state of so long ago.
	Stale time.Duration
	// LoseReply lets the call be performed and its answer vanish.
	LoseReply bool
	// Reply passes between the call's performance and the caller's hearing of
	// it.
	Reply time.Duration
	// Repeat is how many times more the event is delivered.
	Repeat int
	// Gap makes the watch deaf from this event on for so long, after which it
	// hears the current state of all its keys.
	Gap time.Duration
}

// refused returns how a call fails that the store does not perform, if it does
// not. f.mu is held.
func (f *Faults) refused(fate Fate) error {
	switch {
	case fate.Deny:
		f.counts[Denial]++
		return fmt.Errorf("%w: denied", store.ErrPermanent)
	case fate.Refuse:
		f.counts[Refusal]++
		return fmt.Errorf("%w: refused", store.ErrTransient)
	}
	return nil
}

// A Policy decides what happens to a call. It is called with the registers
// locked: it must be quick and must not call methods of Faults or Client. Calls
// of it do not overlap. A nil Policy is a perfect network.
type Policy func(Call) Fate

// Rates are the probabilities, from 0 to 1, and the bounds of random faults.
type Rates struct {
	Delay    time.Duration // calls and answers take up to so long, each way
	Lose     float64       // a call is lost
	Reply    float64       // an answer is lost
	Late     float64       // a write is applied after its caller's deadline,
	MaxLate  time.Duration // and by at most so long
	Refuse   float64       // a call is refused
	Conflict float64       // a write is refused by a false conflict
	Stale    float64       // a read is stale,
	MaxStale time.Duration // and by at most so long

	EventDelay time.Duration // events take up to so long
	LoseEvent  float64       // an event is lost
	Repeat     float64       // an event is repeated
	Gap        float64       // an event begins a gap,
	MaxGap     time.Duration // of at most so long
}

// Rough returns rates under which every kind of fault happens every few dozen
// calls.
func Rough() Rates {
	return Rates{
		Delay: 20 * time.Millisecond, Lose: .03, Reply: .03, Late: .03, MaxLate: 3 * time.Second,
		Refuse: .03, Conflict: .02, Stale: .1, MaxStale: 5 * time.Second,
		EventDelay: 50 * time.Millisecond, LoseEvent: .05, Repeat: .05, Gap: .01, MaxGap: 3 * time.Second,
	}
}

// Random returns a policy that draws every call's fate from the seed and the
// call itself: which client asks what of which key for the how-manyth time. So
// the fates of one client do not depend on how its calls interleave with the
// calls of others.
func Random(seed uint64, r Rates) Policy {
	return func(c Call) Fate {
		rng := rand.New(rand.NewPCG(seed, c.hash()))
		if c.Op == Event {
			return r.event(rng)
		}
		return r.call(rng)
	}
}

func (c Call) hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.Client + "\x00" + c.Key + "\x00" + strconv.Itoa(int(c.Op)) + "\x00" + strconv.FormatUint(c.N, 10)))
	return h.Sum64()
}

func (r Rates) call(rng *rand.Rand) Fate {
	f := Fate{
		Delay:     upTo(rng, r.Delay),
		Reply:     upTo(rng, r.Delay),
		Lose:      rng.Float64() < r.Lose,
		LoseReply: rng.Float64() < r.Reply,
		Refuse:    rng.Float64() < r.Refuse,
		Conflict:  rng.Float64() < r.Conflict,
	}
	if rng.Float64() < r.Late {
		f.Late = upTo(rng, r.MaxLate)
	}
	if rng.Float64() < r.Stale {
		f.Stale = upTo(rng, r.MaxStale)
	}
	return f
}

func (r Rates) event(rng *rand.Rand) Fate {
	f := Fate{Delay: upTo(rng, r.EventDelay), Lose: rng.Float64() < r.LoseEvent}
	if rng.Float64() < r.Repeat {
		f.Repeat = 1 + rng.IntN(3)
	}
	if rng.Float64() < r.Gap {
		f.Gap = upTo(rng, r.MaxGap)
	}
	return f
}

// upTo draws a duration between 0 and limit, both included.
func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(limit) + 1))
}
