package natsstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// refusal is an error as PublishMsg returns it for a code of the server.
func refusal(code jetstream.ErrorCode) error {
	return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: code})
}

// What real servers answer is tested with real servers, in the test module;
// here stands what each answer means.
func TestOnlyAnExplicitRefusalIsAProofThatNothingWasStored(t *testing.T) {
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
		{"server out of resources", refusal(10023), store.ErrTransient},
		{"no leader", refusal(10008), store.ErrTransient},
		{"a code of tomorrow", refusal(19999), store.ErrUnknown},
		{"no stream", jetstream.ErrNoStreamResponse, errNoStream},
		{"reconnect buffer off or full", nats.ErrReconnectBufExceeded, store.ErrTransient},
		{"over the server's payload", nats.ErrMaxPayload, store.ErrInvalid},
		{"draining", nats.ErrConnectionDraining, store.ErrPermanent},
		{"closed during the call", nats.ErrConnectionClosed, store.ErrUnknown},
		{"disconnected during the call", nats.ErrDisconnected, store.ErrUnknown},
		{"interrupted", errInterrupted, store.ErrUnknown},
		{"deadline", context.DeadlineExceeded, store.ErrUnknown},
		{"cancelled", context.Canceled, store.ErrUnknown},
		{"an answer that is none", jetstream.ErrInvalidJSAck, store.ErrUnknown},
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
		{"nonsense", errNotRecord, store.ErrTransient},
	} {
		if got := classifyRead(c.err); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOnlyWholeRecordsUnderTheirKeyCountAsRepublished(t *testing.T) {
	const stored = "$KV.b."
	for _, c := range []struct {
		rp   *jetstream.RePublish
		want string
	}{
		{nil, ""},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "leader.b.>"}, "leader.b."},
		{&jetstream.RePublish{Source: ">", Destination: "copy.>"}, "copy.$KV.b."},
		{&jetstream.RePublish{Destination: "copy.>"}, "copy.$KV.b."},
		{&jetstream.RePublish{Source: "$KV.>", Destination: "copy.>"}, "copy.b."},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "leader.b.>", HeadersOnly: true}, ""},
		{&jetstream.RePublish{Source: "$KV.b.some.>", Destination: "leader.b.>"}, ""},
		{&jetstream.RePublish{Source: "$KV.b.*", Destination: "leader.b.{{wildcard(1)}}"}, ""},
		{&jetstream.RePublish{Source: "$KV.b.>", Destination: "one.subject"}, ""},
	} {
		if got := republishedPrefix(c.rp, stored); got != c.want {
			t.Errorf("%+v: %q, want %q", c.rp, got, c.want)
		}
	}
}

func TestMarkersAreTombstones(t *testing.T) {
	for _, c := range []struct {
		header nats.Header
		want   bool
	}{
		{nil, false},
		{nats.Header{"Nats-Sequence": {"1"}}, false},
		{nats.Header{"KV-Operation": {"DEL"}}, true},
		{nats.Header{"KV-Operation": {"PURGE"}}, true},
		{nats.Header{"KV-Operation": {"PUT"}}, false},
		{nats.Header{"Nats-Marker-Reason": {"MaxAge"}}, true},
	} {
		if got := tombstone(c.header); got != c.want {
			t.Errorf("%v: %v, want %v", c.header, got, c.want)
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

// A read shows at once what a busy feed delivers one by one: its stragglers are
// not the writes to another stream. For who may not read, they are.
func TestStragglersOfABusyFeedAreNoLostWrites(t *testing.T) {
	for _, unreadable := range []bool{false, true} {
		h := &hub{unsettled: map[*register]struct{}{}}
		r := &register{known: true, entry: store.Entry{Key: "k", Revision: 14}, unreadable: unreadable}
		for rev := uint64(5); rev < 14; rev++ {
			h.lived(r, store.Entry{Key: "k", Revision: rev})
		}
		if unreadable && r.entry.Revision >= 14 {
			t.Error("nothing was believed of a stream that began anew")
		}
		if !unreadable && (r.entry.Revision != 14 || !r.stale) {
			t.Errorf("the register is at revision %d, to be read %v", r.entry.Revision, r.stale)
		}
	}
}

// What the hub does after each message must not grow with the number of keys:
// only those that are to be read or to be confirmed are looked at.
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
		r := c.r
		h := &hub{unsettled: map[*register]struct{}{&r: {}}}
		h.refresh(&r, now, func(time.Time) {})
		if rest := len(h.unsettled) == 0; rest != c.rest {
			t.Errorf("%s: at rest %v", c.what, rest)
		}
		h.toRead(&r)
		if len(h.unsettled) != 1 {
			t.Errorf("%s: forgotten", c.what)
		}
	}
}

// A bucket that is heard of needs no look at its configuration, by each of its
// watchers, now and then.
func TestNewsPutOffTheAudit(t *testing.T) {
	h := &hub{unsettled: map[*register]struct{}{}}
	r := &register{known: true, entry: store.Entry{Key: "k", Revision: 14}}
	h.lived(r, store.Entry{Key: "k", Revision: 13})
	if !h.auditAt.IsZero() {
		t.Error("a straggler put it off")
	}
	h.lived(r, store.Entry{Key: "k", Revision: 15})
	if time.Until(h.auditAt) < auditEvery/2 {
		t.Errorf("the audit is due at %v", h.auditAt)
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
