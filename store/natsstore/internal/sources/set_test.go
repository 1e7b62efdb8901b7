package sources

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A bench holds a set without a connection: what it would send is noted, and
// what it brings.
type bench struct {
	*Set

	asked   []question
	latest  string        // subject of a subscription
	tries   []func(error) // questions for the right to subscribe
	told    []string      // what the keys and the viewers heard
	broken  error         // of subscriptions
	denied  error
	waiting bool
	cluster bool
}

type question struct {
	subject, body string
	done          func(*nats.Msg)
}

func newBench(republished string, whole bool) *bench {
	b := &bench{}
	b.Set = NewSet(Config{Names: wire.NewNames("b", jetstream.DefaultAPIPrefix), Whole: whole}, b)
	b.Republished(republished)
	b.Serve(keys{b})
	return b
}

func (b *bench) Subscribe(subject string, _ bool) (*nats.Subscription, error) {
	b.latest = subject
	return &nats.Subscription{Subject: subject}, b.broken
}

func (b *bench) Ask(_ time.Time, subject string, body []byte, done func(*nats.Msg)) {
	b.asked = append(b.asked, question{subject, string(body), done})
}

func (b *bench) NewInbox() string                   { return nats.NewInbox() }
func (b *bench) Waiting() bool                      { return b.waiting }
func (b *bench) Clustered() bool                    { return b.cluster }
func (b *bench) LastError() error                   { return b.denied }
func (b *bench) Report(error)                       {}
func (b *bench) Refused(_ string, done func(error)) { b.tries = append(b.tries, done) }
func (b *bench) Nudge()                             {}
func (b *bench) tell(format string, args ...any) {
	b.told = append(b.told, fmt.Sprintf(format, args...))
}
func (b *bench) work(now time.Time)                { b.Work(now, func(time.Time) {}) }
func (b *bench) only(t *testing.T, what ...string) { t.Helper(); b.heard(t, what); b.told = nil }
func (b *bench) heard(t *testing.T, what []string) { t.Helper(); check(t, b.told, what) }
func check(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// answer answers the first of the questions that were asked.
func (b *bench) answer(body string) {
	q := b.asked[0]
	b.asked = b.asked[1:]
	q.done(&nats.Msg{Data: []byte(body)})
}

// record has a source's consumer bring a record, as its so many-th message.
func (b *bench) record(f *Source, key string, revision, number, pending int) {
	reply := fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%d.1700000000000000000.%d", revision, number, pending)
	b.Receive(&nats.Msg{Sub: f.sub, Subject: "$KV.b." + key, Reply: reply})
}

// keys and viewer note what they hear.
type keys struct{ b *bench }

func (k keys) Heard(e store.Entry)            { k.b.tell("heard %s %d", e.Key, e.Revision) }
func (k keys) Shown(e store.Entry, _ uint64)  { k.b.tell("shown %s %d", e.Key, e.Revision) }
func (k keys) Complete(key string, _ uint64)  { k.b.tell("complete %s", key) }
func (k keys) Lost(key string, shared bool)   { k.b.tell("lost %s %v", key, shared) }
func (k keys) Read(key string) (watched bool) { k.b.tell("read %s", key); return true }
func (k keys) ReadNow(key string)             { k.b.tell("read now %s", key) }

type viewer struct {
	b       *bench
	pattern string
}

func (v *viewer) Pattern() string { return v.pattern }
func (v *viewer) Begin()          { v.b.tell("view begins") }
func (v *viewer) Bring(e store.Entry, shows bool) {
	v.b.tell("view %s %d %v", e.Key, e.Revision, shows)
}
func (v *viewer) Complete() { v.b.tell("view complete") }
func (v *viewer) Lost()     { v.b.tell("view lost") }
func (v *viewer) Failed()   { v.b.tell("view failed") }
func (v *viewer) Closed()   { v.b.tell("view closed") }
func (v *viewer) Taken()    { v.b.tell("view taken") }
func (v *viewer) Resumed()  { v.b.tell("view resumed") }

func republication(f *Source, subject, key string, revision int) *nats.Msg {
	return &nats.Msg{Sub: f.sub, Subject: subject + key, Header: nats.Header{
		jetstream.SequenceHeader: {strconv.Itoa(revision)}, jetstream.SubjectHeader: {"$KV.b." + key},
	}}
}

func TestARepublishedKeyCostsOneSubscription(t *testing.T) {
	b := newBench("leader.b.", false)
	for range 2 {
		if err := b.Add("k"); err != nil {
			t.Fatal(err)
		}
	}
	f := b.byKey["k"]
	if len(b.bySub) != 1 || f.Subject() != "leader.b.k" || !b.Brings("k") || b.Brings("other") {
		t.Errorf("%d subscriptions, to %q", len(b.bySub), f.Subject())
	}
	b.cluster = true
	if !b.Lossy("k") || b.Lossy("other") {
		t.Error("a new subscription in a cluster loses nothing")
	}
	b.Receive(republication(f, "leader.b.", "k", 7))
	b.Receive(&nats.Msg{Sub: f.sub, Subject: "leader.b.k"}) // of nobody's stream
	b.only(t, "heard k 7")
	if b.Receive(&nats.Msg{Sub: new(nats.Subscription)}) {
		t.Error("a stranger's message was taken")
	}
	b.Remove("k")
	if len(b.bySub)+len(b.byKey) != 0 || b.Receive(republication(f, "leader.b.", "k", 8)) {
		t.Error("the source is still there")
	}
	b.broken = errors.New("broken")
	if err := b.Add("k"); !errors.Is(err, b.broken) || b.Brings("k") {
		t.Errorf("a failed subscription: %v", err)
	}
}

func TestOneSourceBringsTheWholeBucket(t *testing.T) {
	b := newBench("leader.b.", true)
	v := &viewer{b, "x.*"}
	for _, key := range []string{"k", "x.1"} {
		if err := b.Add(key); err != nil {
			t.Fatal(err)
		}
	}
	f, err := b.Open(v)
	if err != nil || len(b.bySub) != 1 || f.Subject() != "leader.b.>" {
		t.Fatalf("%d subscriptions, %v", len(b.bySub), err)
	}
	b.Receive(republication(f, "leader.b.", "x.1", 7))
	b.Receive(republication(f, "leader.b.", "other", 8))
	b.only(t, "heard x.1 7", "view x.1 7 false")
	b.Close(f, v)
	b.Remove("x.1")
	b.Receive(republication(f, "leader.b.", "x.1", 9))
	b.Receive(republication(f, "leader.b.", "k", 10))
	b.only(t, "heard k 10")
	b.Reopen()
	if len(b.bySub) != 0 || b.Brings("k") {
		t.Error("the source outlived what it was opened for")
	}
}

// The current state comes first, and its entries are distinguished from later
// writes.
func TestAConsumerShowsThePresentStateFirst(t *testing.T) {
	b := newBench("", false)
	if err := b.Add("k"); err != nil {
		t.Fatal(err)
	}
	f := b.byKey["k"]
	now := time.Now()
	b.work(now)
	if b.Brings("k") || len(b.asked) != 1 || !strings.HasPrefix(b.asked[0].subject, "$JS.API.CONSUMER.CREATE.KV_b.") ||
		!strings.HasSuffix(b.asked[0].subject, ".$KV.b.k") {
		t.Fatalf("asked %+v", b.asked)
	}
	b.answer(`{"num_pending":1}`)
	if !b.Brings("k") {
		t.Error("it does not stand")
	}
	b.record(f, "k", 5, 1, 0)
	b.only(t, "shown k 5", "complete k")
	b.record(f, "k", 6, 2, 0)
	b.only(t, "heard k 6")
	b.record(f, "k", 8, 4, 0) // the third went astray
	b.only(t, "lost k false")
	b.work(now)
	b.answer(`{"error":{"code":500,"err_code":10008}}`)
	b.work(now)
	if len(b.asked) != 0 {
		t.Error("a failure is repeated at once")
	}
	b.work(now.Add(time.Minute))
	if len(b.asked) != 1 {
		t.Error("a failure is not repeated")
	}
}

// A consumer that is silent is probed before it is given up, and not while
// messages wait in front of the answer.
func TestASilentConsumerIsProbed(t *testing.T) {
	for _, c := range []struct {
		name  string
		heard bool // before the answer
		lost  bool
	}{{"nothing was heard before the answer", false, true}, {"it was heard before the answer", true, false}} {
		b := newBench("", false)
		if err := b.Add("k"); err != nil {
			t.Fatal(err)
		}
		f := b.byKey["k"]
		b.work(time.Now())
		b.answer(`{}`)
		b.told = nil
		later := time.Now().Add(2 * maxSilence)
		b.waiting = true
		b.work(later)
		if len(b.asked) != 0 {
			t.Fatal("it is probed although messages wait")
		}
		b.waiting = false
		b.work(later)
		if len(b.asked) != 1 || b.asked[0].subject != "$JS.API.DIRECT.GET.KV_b.$KV.b.k" {
			t.Fatalf("asked %+v", b.asked)
		}
		if c.heard {
			f.heardAt = later
		}
		b.asked[0].done(nil)
		if lost := slices.Contains(b.told, "lost k false"); lost != c.lost {
			t.Errorf("%s: given up %v", c.name, lost)
		}
	}
}

// The answer to its probe does not affect the consumer that took its place,
// whose viewer is the same.
func TestProbeOfAClosedConsumerLosesNoEntry(t *testing.T) {
	b := newBench("leader.b.", false)
	if _, err := b.Show(&viewer{b, "x.*"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.answer(`{}`)
	b.work(time.Now().Add(2 * maxSilence))
	if len(b.asked) != 1 || b.asked[0].subject != "$JS.API.STREAM.INFO.KV_b" {
		t.Fatalf("no probe: asked %+v", b.asked)
	}
	probe := b.asked[0]
	b.Reopen()
	b.told = nil
	probe.done(nil)
	if len(b.told) > 0 {
		t.Errorf("told %q", b.told)
	}
}

// The first keys have a consumer each. The others share some, and the server
// gets the list of these keys as they come and go.
func TestKeysBeyondTheFirstShareAConsumer(t *testing.T) {
	b := newBench("", false)
	for i := range ownConsumers + 2 {
		if err := b.Add(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.consumers) != ownConsumers+1 {
		t.Fatalf("%d consumers", len(b.consumers))
	}
	now := time.Now()
	b.work(now)
	for len(b.asked) > 0 {
		b.answer(`{}`)
	}
	b.told = nil
	if err := b.Add("new"); err != nil {
		t.Fatal(err)
	}
	if b.Brings("new") || !b.Brings("5") {
		t.Error("a key counts as brought before the server has confirmed it")
	}
	b.work(now.Add(time.Second))
	if len(b.asked) != 1 || !strings.Contains(b.asked[0].body, `"update"`) || !strings.Contains(b.asked[0].body, `"$KV.b.new"`) {
		t.Fatalf("asked %+v", b.asked)
	}
	b.answer(`{}`)
	b.only(t, "read now new")
	if !b.Brings("new") {
		t.Error("a key that the server has confirmed counts as missing")
	}
	for _, key := range []string{"4", "5", "new"} {
		b.Remove(key)
	}
	if len(b.consumers) != ownConsumers {
		t.Error("a shared consumer outlived its keys")
	}
}

// Only the refusal of a consumer with several keys is a reason to do without
// it; the refusal of a consumer for one key means that the key may not be
// watched.
func TestRefusalsOfSharedConsumersAreDistinguished(t *testing.T) {
	denied := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
	}
	b := newBench("", false)
	for i := range ownConsumers + 1 {
		if err := b.Add(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	f := b.byKey[strconv.Itoa(ownConsumers)]
	const create = "$JS.API.CONSUMER.CREATE.KV_b."
	for _, name := range []string{"", "X"} { // before it was asked for, and after
		f.name = name
		for _, subject := range []string{create + "Y.$KV.b.k", create + "X.$KV.b.k", create + "Y", "$KV.b.k"} {
			if b.RefusedShared(denied(subject)) || b.alone {
				t.Errorf("%q was taken for the refusal of %q", subject, name)
			}
		}
	}
	if !b.RefusedShared(denied(create+"X")) || !b.alone {
		t.Error("the refusal was not noticed")
	}
	b.only(t, "read 4")
	if alone := b.byKey["4"]; alone == f || alone.names != nil {
		t.Error("the key still shares a consumer")
	}
}

// A consumer that shows a viewer the current state serves no other viewer.
func TestAConsumerOfAViewerAlone(t *testing.T) {
	b := newBench("leader.b.", false)
	v := &viewer{b, "x.*"}
	f, err := b.Show(v, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.answer(`{"num_pending":1}`)
	b.record(f, "x.1", 5, 1, 0)
	b.only(t, "view x.1 5 true", "view complete")
	b.Lose(f)
	b.work(time.Now())
	b.asked[0].done(nil)
	b.only(t, "view lost", "view begins", "view failed")
	b.Reopen()
	b.only(t, "view closed")
	if len(b.consumers)+len(b.bySub) != 0 {
		t.Error("it is still there")
	}
}
