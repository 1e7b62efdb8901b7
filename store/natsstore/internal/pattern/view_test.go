package pattern

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/sources"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A bench holds a view and its sources without a connection: what they would
// send is noted.
type bench struct {
	*View

	set     *sources.Set
	watched *watch.Watch
	subs    map[string]*nats.Subscription
	sent    []*nats.Msg       // requests of the view
	tries   []func(error)     // questions of the sources for the right to subscribe
	asked   []string          // subjects of requests of the sources
	answers []func(*nats.Msg) // to those
	denied  error             // as the connection reports it
	told    []string          // what the watch heard

	clustered bool
	leader    []func(state wire.State, ok bool) // who waits for the stream's leader
}

func newBench(t *testing.T, pattern, republished string) *bench {
	t.Helper()
	b := &bench{subs: make(map[string]*nats.Subscription)}
	b.set = sources.NewSet(sources.Config{Names: wire.NewNames("b", jetstream.DefaultAPIPrefix)}, b)
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

func (b *bench) NewInbox() string { return nats.NewInbox() }
func (b *bench) Waiting() bool    { return false }
func (b *bench) Clustered() bool  { return b.clustered }
func (b *bench) Informed() bool {
	return b.clustered || b.source != nil && b.source.Consumer()
}
func (b *bench) NoDirect() bool                     { return false }
func (b *bench) LastError() error                   { return b.denied }
func (b *bench) Report(error)                       {}
func (b *bench) Unanswered(error)                   {}
func (b *bench) Refused(_ string, done func(error)) { b.tries = append(b.tries, done) }
func (b *bench) Nudge()                             {}
func (b *bench) Call(_ any, f func())               { f() }
func (b *bench) work()                              { b.Work(time.Now().Add(time.Second), func(time.Time) {}) }

func (b *bench) AskLeader(_ string, done func(wire.State, bool)) { b.leader = append(b.leader, done) }

// leads answers what the stream's leader was asked last: it has these keys.
func (b *bench) leads(t *testing.T, keys ...string) {
	t.Helper()
	if len(b.leader) == 0 {
		t.Fatal("the stream's leader was not asked")
	}
	info := &jetstream.StreamInfo{State: jetstream.StreamState{LastSeq: 6, Subjects: make(map[string]uint64)}}
	for _, key := range keys {
		info.State.Subjects["$KV.b."+key] = 1
	}
	done := b.leader[0]
	b.leader = b.leader[1:]
	done(wire.NewNames("b", jetstream.DefaultAPIPrefix).State(info), true)
}

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

// A user who may publish below $KV.<bucket>. may use subjects that are not keys.
// They must not become names of groups, on terminals and in paths.
func TestSubjectsThatCannotBeKeysAreNotDelivered(t *testing.T) {
	b := newBench(t, ">", "leader.b.")
	b.work()
	for i, key := range []string{"a\x1b[2J", "é", "<b>", strings.Repeat("x", store.MaxKey+1), "a"} {
		b.read(stored(key, i+1))
		b.set.Receive(&nats.Msg{Sub: b.subs["leader.b.>"], Subject: "leader.b." + key, Header: stored(key, i+10)})
	}
	b.read(end)
	b.hears(t, "in all", "a 5", "a 14", "present")
}

func TestAViewReadsThePresentState(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
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

// A message that a broken route took with it is not repeated.
func TestTheCurrentStateIsReadNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "x.*", "leader.b.")
		b.work()
		b.read(stored("x.1", 5))
		b.read(end)
		b.hears(t, "at first", "x.1 5", "present")
		time.Sleep(surveyEvery - 2*time.Second)
		b.work()
		if len(b.sent) != 1 {
			t.Fatal("it is read again too soon")
		}
		time.Sleep(time.Second)
		b.work()
		if len(b.sent) != 2 {
			t.Fatal("it is not read again")
		}
		b.read(stored("x.1", 5))
		b.read(stored("x.2", 6))
		b.read(end)
		b.hears(t, "later", "x.2 6")
		time.Sleep(surveyEvery)
		b.work()
		if len(b.sent) != 3 {
			t.Error("it is read once more only")
		}
	})
}

// Where a direct get does not serve, a consumer reads; and who may do neither
// hears that, and of each key with its next write.
func TestTheOtherWayOfReadingIsTried(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.work()
	b.read(nats.Header{wire.HeaderStatus: {"413"}, wire.HeaderDescription: {"Too Many Results"}})
	b.work()
	if len(b.asked) != 1 {
		t.Fatalf("asked %q", b.asked)
	}
	b.denied = fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, b.asked[0])
	b.Renounce(b.denied)
	b.hears(t, "denied", "unreadable")
	b.work()
	if len(b.sent)+len(b.asked) != 2 {
		t.Error("it tries again what is denied")
	}
	live := b.subs["leader.b.x.*"]
	b.set.Receive(&nats.Msg{Sub: live, Subject: "leader.b.x.1", Header: stored("x.1", 7)})
	b.hears(t, "a write", "x.1 7")
}

// A direct get that the user may not make has no answer.
func TestADirectGetThatIsRefusedIsNotAwaited(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.work()
	b.ReadByConsumer()
	b.work()
	if len(b.sent) != 1 || len(b.asked) != 1 || b.asked[0] == "" {
		t.Errorf("sent %d, asked %q", len(b.sent), b.asked)
	}
}

// A user who may not read has no surveys, but must still learn that the server
// took the subscription away.
func TestAViewThatMayNotReadFindsThatItsSubscriptionWasTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "x.*", "leader.b.")
		b.work()
		b.Renounce(errors.New("denied"))
		b.hears(t, "at first", "unreadable")
		b.denied = fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, "elsewhere")
		for range 3 {
			time.Sleep(surveyEvery)
			b.work()
		}
		if len(b.tries) != 1 {
			t.Fatalf("%d questions", len(b.tries))
		}
		b.tries[0](b.denied)
		b.hears(t, "later", "unreadable")
		time.Sleep(surveyEvery)
		b.work()
		if len(b.tries) != 2 {
			t.Fatal("it is not asked for again")
		}
	})
}

// If a survey shows an entry that the subscription did not bring because the
// server took the subscription away, an error follows the current state.
func TestASurveyFindsThatTheSubscriptionWasTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "x.*", "leader.b.")
		b.work()
		b.read(stored("x.1", 5))
		b.read(end)
		b.hears(t, "at first", "x.1 5", "present")
		b.denied = fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, "elsewhere")
		time.Sleep(surveyEvery)
		b.work()
		if len(b.tries) != 1 {
			t.Fatalf("%d questions", len(b.tries))
		}
		b.tries[0](b.denied)
		b.read(stored("x.1", 6))
		b.read(end)
		b.hears(t, "later", "unreadable", "x.1 6")
	})
}

// A reading without an answer is given up, and the consumer that follows it
// when it can not be made.
func TestAReadingWithoutAnAnswerIsRepeated(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
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
		t.Error("its source outlived it")
	}
}

// A consumer that brings the writes brings the current state, too.
func TestTheConsumerOfAViewShowsTheCurrentState(t *testing.T) {
	b := newBench(t, "x.*", "")
	b.set.Work(time.Now(), func(time.Time) {})
	b.work()
	if len(b.asked) != 1 || len(b.sent) != 0 {
		t.Fatalf("asked %q, sent %d", b.asked, len(b.sent))
	}
	b.answers[0](&nats.Msg{Data: []byte(`{"num_pending":1}`)})
	inbox := b.source.Subject()
	b.set.Receive(&nats.Msg{Sub: b.subs[inbox], Subject: "$KV.b.x.1", Reply: "$JS.ACK.KV_b.c.1.5.1.1700000000000000000.0"})
	b.hears(t, "from the consumer", "x.1 5")
	b.leads(t, "x.1", "x.2") // of which the old message went meanwhile
	b.consumed("x.2", 7, 2, 0)
	b.hears(t, "what is owed", "x.2 7", "present")
	if !b.Survey("x.9") || b.Survey("y") {
		t.Error("a key is another's")
	}
	b.work() // a survey is a new consumer
	b.set.Work(time.Now(), func(time.Time) {})
	if len(b.asked) != 2 {
		t.Errorf("asked %q", b.asked)
	}
}

// consumed brings one message of the view's consumer.
func (b *bench) consumed(key string, revision, number, pending int) {
	inbox := b.source.Subject()
	b.set.Receive(&nats.Msg{
		Sub: b.subs[inbox], Subject: "$KV.b." + key, Reply: fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%d.1700000000000000000.%d", revision, number, pending),
	})
}

// lagging is a view whose consumer is on a replica that has one of two keys.
func lagging(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, "x.*", "")
	b.clustered = true
	b.set.Work(time.Now(), func(time.Time) {})
	b.answers[0](&nats.Msg{Data: []byte(`{"num_pending":1}`)})
	b.consumed("x.1", 5, 1, 0)
	return b
}

// The first entries from a replica that lags are not all that the store holds.
func TestTheCurrentStateIsNotCompleteBeforeTheLeadersKeysHaveCome(t *testing.T) {
	b := lagging(t)
	b.hears(t, "from the replica", "x.1 5")
	b.leads(t, "x.1", "x.2")
	b.hears(t, "while it lags", []string{}...)
	b.consumed("x.3", 7, 2, 0) // written later, and not waited for
	b.hears(t, "a write", "x.3 7")
	b.consumed("x.2", 6, 3, 0)
	b.hears(t, "when it has caught up", "x.2 6", "present")
	b.consumed("x.2", 8, 4, 0)
	b.hears(t, "a later write", "x.2 8")
}

func TestTheCurrentStateIsCompleteWhereTheLeaderHasNoMore(t *testing.T) {
	b := lagging(t)
	b.leads(t, "x.1")
	b.hears(t, "the leader has no more", "x.1 5", "present")
}

func TestTheReplicaShowsTheCurrentStateWhereTheLeaderDoesNotAnswer(t *testing.T) {
	b := lagging(t)
	b.leader[0](wire.State{}, false)
	b.hears(t, "no answer", "x.1 5", "present")
}

// A replica that lags may show nothing of a key for as long as the stream has
// no leader that would contradict.
func TestAKeyIsNotGoneWhileTheStreamHasNoLeader(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.work()
	b.read(stored("x.1", 5))
	b.read(end)
	b.StartOver()
	for n := range 10 {
		b.work()
		b.read(end)
		if len(b.leader) == 0 {
			t.Fatalf("the stream's leader was not asked after %d surveys", n)
		}
		b.leader[0](wire.State{}, false)
		b.leader = b.leader[1:]
	}
	b.hears(t, "without a leader", "x.1 5", "present", "present")
}

// A key that is erased while it is waited for never comes.
func TestAKeyThatTheLeaderHasNoMoreIsNotWaitedFor(t *testing.T) {
	b := lagging(t)
	b.leads(t, "x.1", "x.2")
	b.hears(t, "while it lags", "x.1 5")
	var again time.Time
	b.Work(time.Now(), func(at time.Time) { again = at })
	if again.IsZero() || len(b.leader) > 0 {
		t.Fatalf("asks again at %v, %d questions", again, len(b.leader))
	}
	b.Work(again, func(time.Time) {})
	b.leads(t, "x.1", "x.4")
	b.hears(t, "the key is gone", "present")
}

// An answer from before an interruption does not complete the current state
// after it.
func TestAnswerFromBeforeAnInterruptionDoesNotCompleteTheWatch(t *testing.T) {
	b := lagging(t)
	b.StartOver()
	b.leads(t, "x.1")
	b.hears(t, "interrupted", "x.1 5")
}

// A consumer that never brings what it owes makes place for another.
func TestAConsumerThatOwesForTooLongIsReplaced(t *testing.T) {
	b := lagging(t)
	for range askMost {
		b.leads(t, "x.1", "x.2")
		b.Work(time.Now().Add(time.Minute), func(time.Time) {})
	}
	b.set.Work(time.Now(), func(time.Time) {})
	if len(b.asked) != 2 {
		t.Errorf("asked %q", b.asked)
	}
	b.hears(t, "while it owes", "x.1 5")
}

// A replica that lags may show a key that is gone: it is looked at once more.
func TestAKeyThatTheLeaderHasNoMoreIsLookedAtAgain(t *testing.T) {
	b := lagging(t)
	b.consumed("x.9", 9, 2, 0) // later than the state that the leader reported
	b.leads(t, "x.2")
	b.consumed("x.2", 6, 3, 0)
	b.hears(t, "complete", "x.1 5", "x.9 9", "x.2 6", "present")
	b.work()
	b.set.Work(time.Now(), func(time.Time) {})
	if len(b.asked) != 2 {
		t.Fatalf("asked %q", b.asked)
	}
	// The next consumer does not show it, and the leader is asked of that.
	b.answers[1](&nats.Msg{Data: []byte(`{"num_pending":2}`)})
	b.consumed("x.2", 6, 1, 1)
	b.consumed("x.9", 9, 2, 0)
	b.hears(t, "without it", "x.2 6", "x.9 9")
}

func TestWriteAfterTheLeadersAnswerCausesNoFurtherLook(t *testing.T) {
	b := lagging(t)
	b.consumed("x.9", 9, 2, 0)
	b.leads(t, "x.1")
	b.hears(t, "complete", "x.1 5", "x.9 9", "present")
	b.work()
	b.set.Work(time.Now(), func(time.Time) {})
	if len(b.asked) != 1 {
		t.Errorf("asked %q", b.asked)
	}
}

// A view that joins the consumer of the whole bucket while it shows the current
// state has missed a part of that state.
func TestAViewThatJoinsAConsumerMidwayIsNotComplete(t *testing.T) {
	b := &bench{subs: make(map[string]*nats.Subscription)}
	b.set = sources.NewSet(sources.Config{Names: wire.NewNames("b", jetstream.DefaultAPIPrefix), Whole: true}, b)
	first := New(b, b.set, watch.New(func(store.Entry) {}, ">"), ">", func(error) {})
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	b.set.Work(time.Now(), func(time.Time) {})
	b.answers[0](&nats.Msg{Data: []byte(`{"num_pending":2}`)})
	b.View = first
	b.consumed("x.1", 5, 1, 1)

	b.watched = watch.New(func(e store.Entry) { b.told = append(b.told, fmt.Sprintf("%s %d", e.Key, e.Revision)) }, "x.*")
	b.View = New(b, b.set, b.watched, "x.*", func(error) { b.told = append(b.told, "present") })
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	b.consumed("x.2", 6, 2, 0)
	b.hears(t, "half of it", "x.2 6")
	b.work()
	b.set.Work(time.Now(), func(time.Time) {}) // another consumer, which shows all
	b.answers[1](&nats.Msg{Data: []byte(`{"num_pending":2}`)})
	b.consumed("x.1", 5, 1, 1)
	b.consumed("x.2", 6, 2, 0)
	b.hears(t, "all of it", "x.1 5", "x.2 6")
	for len(b.leader) > 0 { // each view asks
		b.leads(t, "x.1", "x.2")
	}
	b.hears(t, "all is shown", "present")
}

// Any replica answers a direct get, too.
func TestADirectGetOfAReplicaThatLagsIsRepeated(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.clustered = true
	b.work()
	b.read(stored("x.1", 5))
	b.read(end)
	b.hears(t, "from the replica", "x.1 5")
	b.leads(t, "x.1", "x.2")
	b.work()
	b.read(stored("x.1", 5))
	b.read(stored("x.2", 6))
	b.hears(t, "when it has caught up", "x.2 6", "present")
	b.read(end)
	b.hears(t, "at the end", []string{}...)
}

// Direct gets are all that there is in a bucket that republishes, however long
// a replica lags.
func TestADirectGetIsRepeatedForAsLongAsAReplicaLags(t *testing.T) {
	b := newBench(t, "x.*", "leader.b.")
	b.clustered = true
	b.work()
	for range 2 * askMost {
		b.read(stored("x.1", 5))
		b.read(end)
		b.leads(t, "x.1", "x.2")
		b.Work(time.Now().Add(time.Minute), func(time.Time) {})
	}
	b.hears(t, "while it lags", "x.1 5")
	b.read(stored("x.1", 5))
	b.read(stored("x.2", 6))
	b.hears(t, "when it has caught up", "x.2 6", "present")
}
