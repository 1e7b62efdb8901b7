package pattern

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/feed"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A bench holds a view and its feeds without a connection: what they would send
// is noted.
type bench struct {
	*View

	set     *feed.Set
	watched *watch.Watch
	subs    map[string]*nats.Subscription
	sent    []*nats.Msg       // requests of the view
	asked   []string          // subjects of requests of the feeds
	answers []func(*nats.Msg) // to those
	denied  error             // as the connection reports it
	told    []string          // what the watch heard
}

func newBench(t *testing.T, pattern, republished string) *bench {
	t.Helper()
	b := &bench{subs: make(map[string]*nats.Subscription)}
	b.set = feed.NewSet(feed.Config{Names: wire.NewNames("b", jetstream.DefaultAPIPrefix)}, b)
	b.set.Republished(republished)
	b.watched = watch.New(func(e store.Entry) { b.told = append(b.told, fmt.Sprintf("%s %d", e.Key, e.Revision)) }, pattern)
	b.View = New(b, b.set, b.watched, pattern, func(err error) {
		if err != nil {
			b.told = append(b.told, "unreadable")
			return
		}
		b.told = append(b.told, "present")
	})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) Subscribe(subject string, _ bool) (*nats.Subscription, error) {
	b.subs[subject] = &nats.Subscription{Subject: subject}
	return b.subs[subject], nil
}

func (b *bench) Ask(_ time.Time, subject string, _ []byte, done func(*nats.Msg)) {
	b.asked, b.answers = append(b.asked, subject), append(b.answers, done)
}

func (b *bench) Publish(m *nats.Msg) error {
	b.sent = append(b.sent, m)
	return nil
}

func (b *bench) NewInbox() string                         { return nats.NewInbox() }
func (b *bench) InboxPrefix() string                      { return nats.InboxPrefix }
func (b *bench) Waiting() bool                            { return false }
func (b *bench) Clustered() bool                          { return false }
func (b *bench) NoDirect() bool                           { return false }
func (b *bench) LastError() error                         { return b.denied }
func (b *bench) Report(error)                             {}
func (b *bench) Unanswered(error)                         {}
func (b *bench) Nudge()                                   {}
func (b *bench) Call(_ any, f func())                     { f() }
func (b *bench) AskLeader(string, func(wire.State, bool)) {}
func (b *bench) work()                                    { b.Work(time.Now().Add(time.Second), func(time.Time) {}) }
func (b *bench) hears(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(b.told, want) {
		t.Errorf("%s: heard %q, want %q", when, b.told, want)
	}
	b.told = nil
}

// read answers the latest direct get with one message.
func (b *bench) read(header nats.Header) {
	inbox := b.sent[len(b.sent)-1].Reply
	b.set.Receive(&nats.Msg{Sub: b.subs[inbox], Subject: inbox, Header: header})
}

func stored(key string, revision int) nats.Header {
	return nats.Header{jetstream.SequenceHeader: {strconv.Itoa(revision)}, jetstream.SubjectHeader: {"$KV.b." + key}}
}

var end = nats.Header{wire.HeaderStatus: {wire.StatusEnd}, wire.HeaderPending: {"0"}}

func TestAViewReadsOnceItsFeedIsAllowed(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.work()
	if len(b.sent) != 0 || !b.Held() {
		t.Fatal("it reads before that is known")
	}
	b.Hold() // the feed became another one meanwhile
	b.Release()
	if !b.Held() {
		t.Fatal("it is not asked of the next feed whether that is allowed")
	}
	b.Release()
	b.work()
	if len(b.sent) != 1 || b.sent[0].Subject != "$JS.API.DIRECT.GET.KV_b" || string(b.sent[0].Data) != `{"multi_last":["$KV.b.x.*"]}` {
		t.Fatalf("sent %+v", b.sent)
	}
	b.read(stored("x.1", 5))
	b.read(stored("x.2", 6))
	b.hears(t, "while it is read", "x.1 5", "x.2 6")
	b.read(end)
	b.hears(t, "at the end", "present")
	select {
	case <-b.watched.Ready():
	default:
		t.Error("the watch has not begun")
	}
	live := b.subs["leader.b.x.*"]
	b.set.Receive(&nats.Msg{Sub: live, Subject: "leader.b.x.1", Header: stored("x.1", 7)})
	b.hears(t, "a write", "x.1 7")
	b.StartOver()
	b.work()
	b.read(stored("x.1", 7))
	b.read(stored("x.2", 6))
	b.read(end)
	b.hears(t, "after an interruption", "x.1 7", "x.2 6", "present")
}

// Where a direct get does not serve, a consumer reads; and who may do neither
// hears that, and of each key with its next write.
func TestTheOtherWayOfReadingIsTried(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.Release()
	b.work()
	b.read(nats.Header{wire.HeaderStatus: {"413"}, wire.HeaderDescription: {"Too Many Results"}})
	b.work()
	if len(b.asked) != 1 {
		t.Fatalf("asked %q", b.asked)
	}
	b.denied = fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, b.asked[0])
	if err := b.Denied(b.denied); err != nil {
		t.Fatalf("a view that may still listen ended: %v", err)
	}
	b.hears(t, "denied", "unreadable")
	b.work()
	if len(b.sent)+len(b.asked) != 2 {
		t.Error("it tries again what is denied")
	}
	live := b.subs["leader.b.x.*"]
	b.set.Receive(&nats.Msg{Sub: live, Subject: "leader.b.x.1", Header: stored("x.1", 7)})
	b.hears(t, "a write", "x.1 7")
	denied := fmt.Errorf("%w: Permissions Violation for Subscription to %q", nats.ErrPermissionViolation, "leader.b.x.*")
	if err := b.Denied(denied); !errors.Is(err, denied) {
		t.Errorf("it may not listen: %v", err)
	}
}

// A reading without an answer is given up, and the consumer that follows it when
// it can not be made.
func TestAReadingWithoutAnAnswerIsRepeated(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.Release()
	b.work()
	late := time.Now().Add(time.Minute)
	b.Work(late, func(time.Time) {}) // gives the direct get up
	b.Work(late, func(time.Time) {})
	if len(b.asked) != 1 {
		t.Fatalf("asked %q", b.asked)
	}
	b.answers[0](nil)
	b.Work(late, func(time.Time) {})
	if len(b.sent) != 2 {
		t.Errorf("%d direct gets", len(b.sent))
	}
	b.read(nats.Header{wire.HeaderStatus: {wire.StatusNotFound}, wire.HeaderDescription: {wire.NoResults}})
	b.hears(t, "there is none", "present")
	b.watched.Stop()
	b.Stop()
	if b.set.Receive(&nats.Msg{Sub: b.subs["leader.b.x.*"]}) {
		t.Error("its feed outlived it")
	}
}

// A consumer that brings the writes brings the present state, too.
func TestTheConsumerOfAViewShowsThePresentState(t *testing.T) {
	b := newBench(t, "x.*", "")
	b.Release()
	b.set.Work(time.Now(), func(time.Time) {})
	b.work()
	if len(b.asked) != 1 || len(b.sent) != 0 {
		t.Fatalf("asked %q, sent %d", b.asked, len(b.sent))
	}
	b.answers[0](&nats.Msg{Data: []byte(`{"num_pending":1}`)})
	inbox := b.feed.Subject()
	b.set.Receive(&nats.Msg{Sub: b.subs[inbox], Subject: "$KV.b.x.1", Reply: "$JS.ACK.KV_b.c.1.5.1.1700000000000000000.0"})
	b.hears(t, "from the consumer", "x.1 5", "present")
	if !b.Survey("x.9") || b.Survey("y") {
		t.Error("a key is another's")
	}
	b.work() // a survey is a new consumer
	b.set.Work(time.Now(), func(time.Time) {})
	if len(b.asked) != 2 {
		t.Errorf("asked %q", b.asked)
	}
}
