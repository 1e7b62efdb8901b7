package natsstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// refusal is an error as PublishMsg returns it for a code of the server.
func refusal(code jetstream.ErrorCode) error {
	return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: code})
}

// The test module tests the answers of real servers; this test covers the
// meaning of each answer.
func TestOnlyAnExplicitRefusalProvesThatNothingWasStored(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"wrong last sequence", refusal(10071), store.ErrConflict},
		{"in flight", refusal(10164), errInFlight},
		{"store failed", refusal(10077), errStoreFailed},
		{"another stream", refusal(10060), errOtherStream},
		{"message too large", refusal(10054), store.ErrInvalid},
		{"headers too large", refusal(10097), store.ErrInvalid},
		{"account's limit", refusal(10002), store.ErrPermanent},
		{"sealed", refusal(10109), store.ErrPermanent},
		{"server out of resources", refusal(10023), store.ErrUnknown},
		{"no leader", refusal(10008), store.ErrTransient},
		{"a code of tomorrow", refusal(19999), store.ErrUnknown},
		{"no stream", jetstream.ErrNoStreamResponse, errNoStream},
		{"reconnect buffer off or full", nats.ErrReconnectBufExceeded, store.ErrTransient},
		{"over the server's payload", nats.ErrMaxPayload, store.ErrInvalid},
		{"draining", nats.ErrConnectionDraining, store.ErrPermanent},
		{"closed during the call", nats.ErrConnectionClosed, store.ErrUnknown},
		{"disconnected during the call", nats.ErrDisconnected, store.ErrUnknown},
		{"interrupted", attend.ErrInterrupted, store.ErrUnknown},
		{"deadline", context.DeadlineExceeded, store.ErrUnknown},
		{"cancelled", context.Canceled, store.ErrUnknown},
		{"no acknowledgement", wire.ErrNotAck, store.ErrUnknown},
		{"anything else", errors.New("?"), store.ErrUnknown},
	} {
		if got := classifyWrite(c.err); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReadsAreTransientOrPermanent(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"no stream of that name", refusal(10059), store.ErrPermanent},
		{"no JetStream for the account", refusal(10039), store.ErrPermanent},
		{"no leader", refusal(10008), store.ErrTransient},
		{"nobody answers", nats.ErrNoResponders, errNoStream},
		{"closed", nats.ErrConnectionClosed, store.ErrClosed},
		{"deadline", context.DeadlineExceeded, store.ErrTransient},
		{"nonsense", wire.ErrMalformed, store.ErrTransient},
	} {
		if got := classifyRead(c.err); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A request that the servers refuse for its content stays refused until the
// caller changes the request, whatever family of codes the server counts it to:
// 10074, more replicas than it has servers, comes as one of the 500s.
func TestRefusalsOfABucketArePermanent(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"more replicas than servers", &jetstream.APIError{Code: 500, ErrorCode: 10074}, store.ErrPermanent},
		{"servers that are down", &jetstream.APIError{Code: 400, ErrorCode: 10005}, store.ErrTransient},
		{"an account's limit", &jetstream.APIError{Code: 400, ErrorCode: 10026}, store.ErrPermanent},
		{"no leader", &jetstream.APIError{Code: 503, ErrorCode: 10008}, store.ErrTransient},
		{"a server in trouble", &jetstream.APIError{Code: 500, ErrorCode: 10049}, store.ErrTransient},
		{"no answer", context.DeadlineExceeded, store.ErrTransient},
	} {
		if got := createClass(fmt.Errorf("nats: %w", c.err)); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBucketNames(t *testing.T) {
	for name, want := range map[string]bool{"": false, "b": true, "a-B_9": true, "a.b": false, "a b": false, "ä": false, "*": false} {
		if got := validBucket(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// A bucket that is heard of needs no look at its configuration, by each of its
// watchers, now and then. While one is under way, no second begins.
func TestNewsPutOffTheAudit(t *testing.T) {
	var a audit
	now := time.Now()
	if begin, _ := a.due(now); !begin {
		t.Error("the first audit is not due")
	}
	if begin, at := a.due(now.Add(time.Hour)); begin || !at.IsZero() {
		t.Error("a second audit began beside the first")
	}
	a.answered()
	a.heard(now.Add(time.Minute))
	if begin, at := a.due(now.Add(time.Minute + auditEvery/2)); begin || !at.Equal(now.Add(time.Minute+auditEvery)) {
		t.Errorf("the audit is due at %v, %v after the news", at, at.Sub(now.Add(time.Minute)))
	}
	a.soon(now.Add(time.Minute))
	if begin, _ := a.due(now.Add(time.Minute + auditEvery/2)); !begin {
		t.Error("it is not due although nobody answers")
	}
	a.now()
	if begin, _ := a.due(now); !begin {
		t.Error("it is not due after the connection was lost")
	}
}

func TestAPlanKnowsAnotherStreamFromOneThatMoved(t *testing.T) {
	made := time.Now()
	for _, c := range []struct {
		name         string
		before, next plan
		anew, moved  bool
	}{
		{"the same", plan{republished: "a.", created: made}, plan{republished: "a.", created: made}, false, false},
		{"republished elsewhere", plan{republished: "a.", created: made}, plan{republished: "b.", created: made}, false, true},
		{"made anew", plan{republished: "a.", created: made}, plan{republished: "a.", created: made.Add(1)}, true, false},
		{"first seen", plan{republished: "a.", created: time.Time{}, unknown: true}, plan{republished: "a.", created: made}, false, false},
		{"first seen, of sources unlike", plan{unknown: true, mixed: true}, plan{created: made}, false, true},
	} {
		if anew, moved := c.before.becomes(c.next); anew != c.anew || moved != c.moved {
			t.Errorf("%s: anew %v, moved %v", c.name, anew, moved)
		}
	}
}

// A listener receives one state after the other, whichever goroutine notices
// it; and a listener that another one ends receives nothing more.
func TestListenersHearEachChangeOnce(t *testing.T) {
	l := listeners{state: store.Connected}
	call := func(_ any, f func()) { f() }
	var heard []store.ConnState
	l.add(func(st store.ConnState) { heard = append(heard, st) })
	var second *listener
	l.add(func(store.ConnState) { l.remove(second) })
	second = l.add(func(store.ConnState) { t.Error("a listener that was ended was called") })
	for _, st := range []store.ConnState{store.Connected, store.Disconnected, store.Disconnected, store.Connected} {
		l.notify(st, call)
	}
	if want := []store.ConnState{store.Disconnected, store.Connected}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
	l.removeAll()
	if !l.empty() {
		t.Error("somebody is left")
	}
}

// runtime.Goexit in a listener ends the goroutine that calls them all. Another
// takes its place, and the others are to hear of the change from that.
func TestListenerThatEndsTheGoroutineDoesNotAffectTheOthers(t *testing.T) {
	var l listeners
	var heard []string
	l.add(func(st store.ConnState) { heard = append(heard, "first "+st.String()); runtime.Goexit() })
	l.add(func(st store.ConnState) { heard = append(heard, "second "+st.String()) })
	for range 3 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.notify(store.Disconnected, func(_ any, f func()) { f() })
		}()
		<-done
	}
	if got, want := strings.Join(heard, ", "), "first DISCONNECTED, second DISCONNECTED"; got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// The clock that made the bucket may have been set back since. Taking such a
// bucket for new costs a wait; taking its age for unknown could cost a second
// leader.
func TestBucketFromTheFutureCountsAsNew(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name               string
		created, timeStamp time.Time
		want               time.Duration
	}{
		{"old", now.Add(-time.Hour), now, time.Hour},
		{"made this instant", now, now, 1},
		{"from the future", now.Add(time.Hour), now, 1},
		{"from a server that does not say what time it is", now, time.Time{}, 0},
	} {
		if got := age(&jetstream.StreamInfo{Created: c.created, TimeStamp: c.timeStamp}); got != c.want {
			t.Errorf("%s: age %v, want %v", c.name, got, c.want)
		}
	}
}
