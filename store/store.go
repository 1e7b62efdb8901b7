// Package store is the contract between an election and the place where its
// records live: a set of named registers with get, compare-and-swap and,
// optionally, watch.
//
// The package needs the standard library alone, so that an implementation for
// another system pulls in nothing of this project but these few types. An
// implementation proves itself with one call:
//
//	func TestConformance(t *testing.T) { storetest.Run(t, newMyStore, storetest.Caps{...}) }
//
// # What a store must guarantee
//
// The safety of an election rests on four promises, and on nothing else that a
// store does. A store that cannot keep one of them must not implement Store.
//
//  1. Compare-and-swap is atomic and linearizable per key: of any number of
//     writes that state the same expected revision at most one is ever applied,
//     whichever process sent them and whenever they arrive.
//  2. The revisions of a key strictly increase: every applied write has a
//     revision larger than every earlier one of that key, also across deletion
//     by other tools and re-creation. Gaps are fine. Revision 0 is never given
//     to a write: it means that the store knows nothing of the key. Revisions
//     are below 2^53, since records state them as JSON numbers, of which many
//     readers lose digits beyond it.
//  3. A write that CompareAndSwap acknowledged stays, unless a later write to
//     the same key replaces it or an operator destroys it.
//  4. Outcomes are honest (see the next section).
//
// Everything else may be weak. Get may be stale, Watch may lose, repeat and
// delay: that costs time, never safety, since whatever a candidate believes is
// confirmed by the compare-and-swap that it acts on.
//
// # Outcomes
//
// A call ends in one of five ways, which [Classify] distinguishes and, in
// programs, errors.Is on the sentinels of this package:
//
//	OK         the write was applied, the revision is its own
//	Conflict   the write was refused and never will be applied: the register
//	           had another revision than the expected one
//	Transient  the call had no effect and never will have: try again
//	Permanent  the call had no effect and never will have, and a repetition ends
//	           the same way until a person changes something (permission, a
//	           missing bucket, a size limit)
//	Unknown    the write may have been applied, or may yet be, also long after
//	           the call returned
//
// When in doubt the answer is Unknown: an election resolves it by looking, and
// its safety requires that a write which lands later never ends with Transient,
// Permanent or Conflict.
package store

import (
	"context"
	"errors"
	"time"
)

// The outcomes of a failed call. An implementation wraps the cause:
//
//	return 0, fmt.Errorf("%w: key %q has revision %d: %w", store.ErrConflict, key, rev, cause)
var (
	// ErrConflict: the register's revision was not the expected one. The write
	// was refused and will not be applied later.
	ErrConflict = errors.New("conflict: the register has another revision")
	// ErrTransient: nothing was applied and nothing will be; try again.
	ErrTransient = errors.New("transient failure")
	// ErrPermanent: nothing was applied and nothing will be; trying again is
	// useless until somebody changes permissions, limits or the store itself.
	ErrPermanent = errors.New("permanent failure")
	// ErrUnknown: the write may have been applied or may be applied later.
	ErrUnknown = errors.New("unknown outcome: the write may or may not be applied")
	// ErrInvalid refines ErrPermanent: the key or the value is one that this
	// store cannot hold. It is decided without contacting the store where that
	// is possible.
	ErrInvalid error = refinedError("invalid key or value")
	// ErrClosed refines ErrPermanent: the store's connection is closed, and
	// nothing opens it again. No later call succeeds, so an election ends with
	// this error.
	ErrClosed error = refinedError("the store's connection is permanently closed")
)

// A refinedError is a sentinel that also matches ErrPermanent.
type refinedError string

func (e refinedError) Error() string      { return string(e) }
func (refinedError) Is(target error) bool { return target == ErrPermanent }

// An Outcome is the class of a call's result.
type Outcome uint8

// The outcomes, as the package documentation defines them.
const (
	OK Outcome = iota
	Conflict
	Transient
	Permanent
	Unknown
)

// String returns the outcome's name in lower case, as logs and metrics show it.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case Conflict:
		return "conflict"
	case Transient:
		return "transient"
	case Permanent:
		return "permanent"
	default:
		return "unknown"
	}
}

// Classify returns the class of an error that a Store returned. An error that
// claims no class is Unknown, the only safe reading of it; an error that claims
// to be Unknown and something else is Unknown, too.
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrUnknown):
		return Unknown
	case errors.Is(err, ErrConflict):
		return Conflict
	case errors.Is(err, ErrPermanent):
		return Permanent
	case errors.Is(err, ErrTransient):
		return Transient
	default:
		return Unknown
	}
}

// An Entry is what a store knows of one register at some instant.
type Entry struct {
	// Key is the register's name.
	Key string
	// Revision is the revision of the write that left the register as it is, or
	// 0 if the store knows nothing of the key (never written, or every trace of
	// it destroyed). With revision 0 the other fields are zero.
	Revision uint64
	// Value is what the last write stored. It is never modified after delivery,
	// by either side. It is empty when a foreign tool deleted the key.
	Value []byte
	// Tombstone reports that the register reads as deleted to the store's
	// ordinary tools: by a write of this library with Tombstone set (Value then
	// holds what was written) or by a foreign deletion, purge or expiry (Value
	// is then empty).
	Tombstone bool
}

// A Write is a compare-and-swap on one register.
type Write struct {
	// Key names the register. See [ValidKey] for the alphabet that every store
	// takes.
	Key string
	// Expected is the revision that the register must have for the write to be
	// applied; 0 means that the store must know nothing of the key. Every write
	// has a condition.
	Expected uint64
	// Value is the new content. The store must not keep a reference to it after
	// the call returned. Stores take values of at least [MaxValue] bytes.
	Value []byte
	// Tombstone asks that the register read as deleted to the store's ordinary
	// tools, while Get and Watch still deliver Value. A store without such a
	// thing keeps the flag beside the value.
	Tombstone bool
}

// MaxValue is the size in bytes of a value that every store must accept. A
// store may accept larger ones, and refuses what it cannot hold with
// ErrInvalid.
const MaxValue = 16 << 10

// MaxKey is the length in bytes of the longest key that every store must
// accept.
const MaxKey = 256

// A Store is a set of registers. All methods may be called concurrently, and
// return when ctx is done: CompareAndSwap then with ErrUnknown unless it can
// prove that the write never left.
type Store interface {
	// Get returns the register's state as some replica of the store knows it.
	// It may be stale. Its result must remain true as if it had been
	// acknowledged: an election whose write is of unknown outcome believes a
	// read that shows it, so a write that a crash of a server may yet take back
	// is not shown (or the store is [Report.Forgetful]). An unknown key is not
	// an error: its entry has revision 0. Errors are ErrTransient or
	// ErrPermanent.
	Get(ctx context.Context, key string) (Entry, error)

	// CompareAndSwap applies w if the register has revision w.Expected, and
	// returns the write's revision, which is larger than w.Expected. It sends
	// the write at most once, with one exception: it may repeat a write that
	// the store provably refused to look at.
	CompareAndSwap(ctx context.Context, w Write) (revision uint64, err error)
}

// An AsyncWriter is a Store that writes without a goroutine that waits for the
// answer. Where thousands of elections share a store, that is most of what a
// renewal costs.
//
// A type that wraps such a Store, and implements CompareAndSwap itself, wraps
// this method too: an election uses it where it can.
type AsyncWriter interface {
	Store

	// CompareAndSwapAsync is CompareAndSwap that does not wait. It calls done
	// exactly once, with the result that CompareAndSwap would have returned,
	// when that is known, or soon after the deadline or a call of Cancel: then
	// with ErrUnknown unless it can prove that the write never left. It does
	// not call done itself: any goroutine of the store does, also before
	// CompareAndSwapAsync has returned. done must return quickly and must not
	// block. The store must not keep a reference to w.Value after that, unless
	// the outcome is ErrUnknown: the write may still be on its way, and its
	// content must not change.
	CompareAndSwapAsync(deadline time.Time, w Write, done func(revision uint64, err error)) Pending
}

// Pending is a call that was made and may not have ended.
type Pending interface {
	// Cancel ends the wait for the answer. It may be called more than once, and
	// after the call has ended.
	Cancel()
}

// A Watcher is a Store that reports changes by itself. An election polls a
// store that is not a Watcher.
type Watcher interface {
	Store

	// Watch delivers the current state of each key (revision 0 for an unknown
	// key) and then its changes, until ctx is done or the returned stop
	// function is called. An error means that nothing is watched; after
	// ErrTransient the caller may try again.
	//
	// Calls of deliver never overlap for one watch, must not be made before
	// Watch has all it needs to succeed, and end before stop returns, unless
	// deliver itself calls stop. deliver must return quickly and must not
	// block.
	//
	// Delivery may be late, repeat an entry, and skip states that were replaced
	// meanwhile. Per key and watch, revisions do not decrease but for one
	// reason: the store lost its state or was made again. After every
	// interruption (a lost connection, a restarted server, a bucket made again)
	// the store resumes by itself and delivers the current state of each key
	// again; no interruption may leave a watch permanently deaf.
	Watch(ctx context.Context, keys []string, deliver func(Entry)) (stop func(), err error)
}

// A PatternWatcher is a Store that reports all keys of a kind by itself, also
// keys that were unknown before. It serves observers of many groups; an
// election does without.
type PatternWatcher interface {
	Store

	// WatchPattern is Watch of every key that matches the pattern
	// ([MatchPattern]) and that the store contains, now or later, until ctx is
	// done or stop is called. Names in the system that are not keys
	// ([ValidKey]) are left out. A malformed pattern ([ValidPattern]) is
	// refused with ErrInvalid. An error means that nothing is watched.
	//
	// What Watch promises of deliver and stop holds here too, and for each key
	// what it promises of delivery. A key of which the store no longer knows
	// anything is delivered once more, with revision 0, as soon as that is
	// noticed, which may be at the next interruption only.
	//
	// present marks the place where the current state is complete: every
	// matching key that is known to the store has been delivered before. It is
	// called after the beginning, after each interruption, and perhaps at other
	// times, in one sequence with the calls of deliver and under the same
	// conditions. Its argument is nil, or an error that explains why the
	// current state cannot be read (the user lacks the permission); deliver
	// then receives each key with its next change only.
	WatchPattern(ctx context.Context, pattern string, deliver func(Entry), present func(error)) (stop func(), err error)
}

// A ConnState is the state of a store's connection to its servers.
type ConnState uint8

// The states of a connection. Closed is permanent: a store that may yet connect
// again reports Disconnected.
const (
	Connected ConnState = iota
	Disconnected
	Closed
)

// String returns CONNECTED, DISCONNECTED or CLOSED.
func (c ConnState) String() string {
	switch c {
	case Connected:
		return "CONNECTED"
	case Disconnected:
		return "DISCONNECTED"
	default:
		return "CLOSED"
	}
}

// A ConnReporter is a Store that knows whether it is connected. Stores without
// a connection do not implement it and count as connected. A store that knows
// why it is disconnected reports that by a method ConnError() error.
type ConnReporter interface {
	// ConnState returns the current state. It does not block.
	ConnState() ConnState
	// OnConnState registers f to be called after each change of the state, one
	// call at a time, until stop is called. f must not block. While nothing is
	// watched, an interruption that no call meets may go unreported.
	OnConnState(f func(ConnState)) (stop func())
}

// A Checker is a Store that can report, before it is used, whether it suits an
// election.
type Checker interface {
	// Check examines the store for leases of the length in req. A finding that
	// makes an election unsafe or impossible is an error, classified like all
	// others, whose text contains the remedy. Findings that only weaken a
	// guarantee are returned as warnings. An election asks a store that
	// reported its Age again, without a Key, when its claim was the first in a
	// register.
	Check(ctx context.Context, req CheckRequest) (Report, error)
}

// A CheckRequest contains what an election needs of a store.
type CheckRequest struct {
	// TTL is the lease's length.
	TTL time.Duration
	// HeartbeatInterval is the time from one renewal of a record to the next, 0
	// if the caller renews none. A store that looks for changes by a clock does
	// so at least twice in it from then on.
	HeartbeatInterval time.Duration
	// Key is the register that is to be written, if the caller knows it. A
	// Checker that can find out whether the user may write there, without
	// writing, does.
	Key string
	// Reads are registers in addition to Key that are to be read.
	Reads []string
}

// A Report is what Check found.
type Report struct {
	// Warnings are full sentences for people, each with what and why.
	Warnings []string
	// Forgetful reports whether the store may go back to an older state, or to
	// none, and give a revision again (memory storage, at a restart).
	// Elections on such a store cool down before each promotion.
	Forgetful bool
	// Expires reports whether the store may drop a record that was
	// acknowledged, by its own clock or for room (a server-side TTL, a size
	// limit at which old records go). Nothing older takes its place, and
	// revisions go on growing. Elections on such a store cool down, but not
	// where a leader hands over. A store that is also Forgetful is treated as
	// Forgetful.
	Expires bool
	// MaxAge is how long after its last write a record stays, 0 without such a
	// bound. It bounds the assumed lease of a record that does not contain its
	// lease's length, since a leader by that record has to write again before
	// it goes.
	MaxAge time.Duration
	// Age is how long the store has existed under its name, by its own clock. A
	// store that was deleted and made again knows nothing of an earlier leader,
	// who may not have heard of it: elections promote nobody before Age exceeds
	// a lease. It must be the age of the store in which the latest acknowledged
	// write was applied, or less. Zero means that the age is unknown, or that
	// nobody can make the store again.
	Age time.Duration
}

// ValidKey reports whether every store takes the key: 1 to [MaxKey] bytes out
// of letters, digits and -_=/. (slash and dot), with no dot at either end and
// no two dots in a row. It is the alphabet of NATS key-value buckets
// (nats.go, jetstream/kv.go, validKeyRe), which the other stores contain.
func ValidKey(key string) bool {
	if len(key) == 0 || len(key) > MaxKey || key[0] == '.' || key[len(key)-1] == '.' {
		return false
	}
	for i := range len(key) {
		c := key[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '=', c == '/':
		case c == '.' && key[i-1] != '.':
		default:
			return false
		}
	}
	return true
}
