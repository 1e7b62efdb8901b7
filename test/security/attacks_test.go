package security_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// bystander is a record of another group, which attacks are after.
const bystander = "other-group"

// underAttack is a lab with a bucket, and a key of another group in it.
func underAttack(t *testing.T, kind string) (*lab, jetstream.KeyValue) {
	t.Helper()
	l := startLab(t, 1, kind, nil)
	root := l.connect("root")
	makeBucket(t, root, kind)
	kv, err := natslab.JetStream(t, root).KeyValue(natslab.Within(t), bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(natslab.Within(t), bystander, []byte("untouched")); err != nil {
		t.Fatal(err)
	}
	return l, kv
}

func untouched(t *testing.T, kv jetstream.KeyValue) {
	t.Helper()
	e, err := kv.Get(natslab.Within(t), bystander)
	if err != nil || string(e.Value()) != "untouched" {
		t.Errorf("the other group's record: %v, %v", e, err)
	}
}

// isDenied waits until the server denied something about a subject.
func (l *lab) isDenied(subject string) {
	l.tb.Helper()
	natslab.Eventually(l.tb, "a denial of "+subject, func(context.Context) error {
		if !l.denied(subject) {
			return errors.New("none")
		}
		return nil
	})
}

// denied reports whether the server denied something about a subject.
func (l *lab) denied(subject string) bool {
	return strings.Contains(fmt.Sprint(l.complaints()), subject)
}

func rollup(subject string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set("Nats-Rollup", "all")
	return m
}

func TestRollupFromACandidateErasesNothingInAManagedBucket(t *testing.T) {
	t.Parallel()
	l, kv := underAttack(t, republishing)
	_, err := natslab.JetStream(t, l.connect(candidate)).PublishMsg(natslab.Within(t), rollup("$KV.leaders.reports"))
	var refused *jetstream.APIError
	if !errors.As(err, &refused) || refused.ErrorCode != 10111 {
		t.Errorf("the rollup: %v", err)
	}
	untouched(t, kv)
}

// In a bucket that allows rollups it erases everything, which is what the
// warning at Start is about.
func TestHoleRollupErasesABucketThatAllowsIt(t *testing.T) {
	t.Parallel()
	l, kv := underAttack(t, other)
	nc := l.connect(candidate)
	join(t, nc, "a").says(leader.NoteWarning, "Nats-Rollup")
	if _, err := natslab.JetStream(t, nc).PublishMsg(natslab.Within(t), rollup("$KV.leaders.reports")); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(natslab.Within(t), bystander); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("the other group's record: %v", err)
	}
}

// consumerTo asks for a consumer of the group's record that delivers to a
// subject of the user's choice.
func consumerTo(nc *nats.Conn, name, subject string) error {
	return nc.PublishRequest("$JS.API.CONSUMER.CREATE.KV_leaders."+name+".$KV.leaders.reports", nc.NewInbox(), fmt.Appendf(nil,
		`{"stream_name":"KV_leaders","config":{"name":%q,"deliver_policy":"last_per_subject","ack_policy":"none",`+
			`"filter_subject":"$KV.leaders.reports","deliver_subject":%q,"num_replicas":1,"mem_storage":true}}`, name, subject))
}

func TestObserverCannotHaveRecordsDeliveredWhereItMayNotPublish(t *testing.T) {
	t.Parallel()
	l, kv := underAttack(t, republishing)
	victim, err := l.connect("root").SubscribeSync("orders")
	if err != nil {
		t.Fatal(err)
	}
	join(t, l.connect(candidate), "a").leads()
	if err := consumerTo(l.connect(observer), "spy", "orders"); err != nil {
		t.Fatal(err)
	}
	l.isDenied("$JS.API.CONSUMER.CREATE.KV_leaders.spy")
	if n, _, err := victim.Pending(); n > 0 || err != nil {
		t.Errorf("%d messages were delivered, %v", n, err)
	}
	untouched(t, kv)
}

// Where observers need consumers the server does not ask whether they may
// publish where those deliver.
func TestHoleConsumersDeliverWhereTheirMakerMayNotPublish(t *testing.T) {
	t.Parallel()
	l, _ := underAttack(t, other)
	victim, err := l.connect("root").SubscribeSync("orders")
	if err != nil {
		t.Fatal(err)
	}
	join(t, l.connect(candidate), "a").leads()
	if err := consumerTo(l.connect(observer), "spy", "orders"); err != nil {
		t.Fatal(err)
	}
	for deadline := natslab.Within(t); ; {
		m, err := victim.NextMsgWithContext(deadline)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(m.Data, []byte(`"id":"a"`)) {
			break
		}
		// On a busy machine a lease was lost, and the record shows that first.
	}
}

func TestCandidateCannotDeleteOrFindAnothersConsumer(t *testing.T) {
	t.Parallel()
	l, _ := underAttack(t, other)
	root := natslab.JetStream(t, l.connect("root"))
	a := join(t, l.connect(candidate), "a", ttl(long))
	a.leads()
	stream, err := root.Stream(natslab.Within(t), "KV_leaders")
	if err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		for name := range stream.ConsumerNames(natslab.Within(t)).Name() {
			all = append(all, name)
		}
		return all
	}
	// It may lead before the second of its records is watched.
	var before []string
	natslab.Eventually(t, "the candidate watches two records", func(context.Context) error {
		if before = names(); len(before) != 2 {
			return fmt.Errorf("it watches with %v", before)
		}
		return nil
	})
	rogue := l.connect(observer)
	for _, name := range before {
		if err := rogue.PublishRequest("$JS.API.CONSUMER.DELETE.KV_leaders."+name, rogue.NewInbox(), nil); err != nil {
			t.Fatal(err)
		}
		l.isDenied("$JS.API.CONSUMER.DELETE.KV_leaders." + name)
	}
	for _, api := range []string{"NAMES", "LIST"} {
		if err := rogue.PublishRequest("$JS.API.CONSUMER."+api+".KV_leaders", rogue.NewInbox(), nil); err != nil {
			t.Fatal(err)
		}
		l.isDenied("$JS.API.CONSUMER." + api + ".KV_leaders")
	}
	if after := names(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("consumers %v, were %v", after, before)
	}
}

func TestUserCannotReadAnothersInbox(t *testing.T) {
	t.Parallel()
	l, _ := underAttack(t, republishing)
	spy := l.connect(observer)
	for _, subject := range []string{"_INBOX_candidate.>", "_INBOX.>", ">", "*.*.*"} {
		if _, err := spy.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		l.isDenied(fmt.Sprintf("Subscription to %q", subject))
	}
}

func TestCandidateCannotPublishToAnotherGroupsKey(t *testing.T) {
	t.Parallel()
	l, kv := underAttack(t, republishing)
	nc := l.connect(candidate)
	for _, subject := range []string{"$KV.leaders." + bystander, "$KV.leaders._ctl.reports", "leader.leaders." + bystander, "leader.leaders.reports"} {
		if err := nc.Publish(subject, []byte("touched")); err != nil {
			t.Fatal(err)
		}
		l.isDenied(subject)
	}
	untouched(t, kv)
}

// vacancy is what a release looks like to other candidates, which may claim it
// at once.
const vacancy = `{"token":"00000000-0000-4000-8000-000000000000","term":1,"reason":"resigned"}`

// The server publishes an answer on the subject that the request names, and
// does not check whether the user may publish there. A user who may send one
// request can therefore write every key of the account. Users keep mistakes
// apart; to keep attackers apart takes accounts, see
// TestAccountsKeepGroupsApart.
func TestHoleAnswersAreStoredOverAnyKeyOfTheAccount(t *testing.T) {
	t.Parallel()
	for _, who := range []string{candidate, observer} {
		t.Run(who, func(t *testing.T) {
			l, kv := underAttack(t, republishing)
			if err := l.connect(who).PublishRequest("$JS.API.STREAM.INFO.KV_leaders", "$KV.leaders."+bystander, nil); err != nil {
				t.Fatal(err)
			}
			natslab.Eventually(t, "the other group's record overwritten", func(ctx context.Context) error {
				e, err := kv.Get(ctx, bystander)
				if err == nil && string(e.Value()) == "untouched" {
					return errors.New("not yet")
				}
				return err
			})
			if got := l.complaints(); len(got) > 0 {
				t.Errorf("the server complained: %v", got)
			}
		})
	}
}

// An answer that is stored over another group's record is not a release,
// whatever its content: no candidate leads before the leader's window has
// closed.
func TestAnswerOverAnotherGroupsRecordReleasesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{republishing, other} {
		t.Run(kind, func(t *testing.T) {
			l := startLab(t, 1, kind, nil)
			makeBucket(t, l.connect("root"), kind)
			elsewhere := func(c *leader.ElectionConfig) { c.Group = bystander }
			p := natslab.NewRelay(t, strings.TrimPrefix(l.url, "nats://"))
			a := join(t, natslab.Connect(t, p.URL(), l.options("root")...), "a", ttl(2*time.Second), elsewhere)
			a.leads()
			b := join(t, l.connect("root"), "b", ttl(2*time.Second), elsewhere)
			b.hears()
			a.succeeds(b) // if the machine stalled for a's lease
			p.Hold(natslab.ToServer, natslab.ToClient)
			forgeRelease(t, l.connect(candidate), "$KV.leaders."+bystander)
			b.leads()
			if a.IsLeader() {
				t.Error("two leaders")
			}
		})
	}
}

func TestAnswerOnARepublishedSubjectIsIgnored(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, republishing, nil)
	makeBucket(t, l.connect("root"), republishing)
	a := join(t, l.connect("root"), "a", ttl(long), func(c *leader.ElectionConfig) { c.Group = bystander })
	a.leads()
	term := a.Term()
	forgeRelease(t, l.connect(candidate), "leader.leaders."+bystander)
	a.renews(3)
	if a.Term() != term {
		t.Errorf("a leads in %v, after %v", a.Term(), term)
	}
}

// forgeRelease writes a release into the own group's record and has it read to
// a subject.
func forgeRelease(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	m := nats.NewMsg("$KV.leaders.reports")
	m.Header.Set("KV-Operation", "DEL")
	m.Data = []byte(vacancy)
	answerWith(t, nc, m, subject)
}

// answerWith writes a message to the own group's record and has it read to a
// subject.
func answerWith(t *testing.T, nc *nats.Conn, m *nats.Msg, subject string) {
	t.Helper()
	if _, err := natslab.JetStream(t, nc).PublishMsg(natslab.Within(t), m); err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("$JS.API.DIRECT.GET.KV_leaders.$KV.leaders.reports", subject, nil); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// A user who may publish on a republished subject can show a record that is not
// there: observers believe it, and a leader takes it for its successor's and
// stops.
func TestHoleForgedRecordOnARepublishedSubjectEndsATerm(t *testing.T) {
	t.Parallel()
	l, _ := underAttack(t, republishing)
	a := join(t, l.connect(candidate), "a", ttl(long))
	a.leads()
	eye := observe(t, l.connect(observer))
	eye.seesLeader("a")
	forged := nats.NewMsg("leader.leaders.reports")
	forged.Data = []byte(`{"id":"rogue","token":"t","ttl":60000}`)
	forged.Header.Set("Nats-Stream", "KV_leaders")
	forged.Header.Set("Nats-Subject", "$KV.leaders.reports")
	forged.Header.Set("Nats-Sequence", fmt.Sprint(a.Term().Number+1_000_000))
	if err := l.connect("root").PublishMsg(forged); err != nil {
		t.Fatal(err)
	}
	eye.seesLeader("rogue")
	a.await("loses its term", func() bool { return !a.IsLeader() })
}

// An oversize record costs the term over which it was written, and the group a
// lease's time.
func TestOversizeRecordCostsOneTerm(t *testing.T) {
	t.Parallel()
	l, _ := underAttack(t, republishing)
	nc := l.connect(candidate)
	a := join(t, nc, "a")
	a.leads()
	b := join(t, l.connect(candidate), "b")
	b.hears()
	term := a.Term().Number
	for term == 0 { // the machine stalled for a lease
		a.succeeds(b)
		term = a.Term().Number
	}
	huge := fmt.Appendf(nil, `{"id":"rogue","ttl":3600000,"token":"t","meta":{"x":%q}}`, strings.Repeat("x", 1_000_000))
	if err := nc.Publish("$KV.leaders.reports", huge); err != nil {
		t.Fatal(err)
	}
	a.await("loses its term", func() bool { return a.Term().Number != term })
	a.await("a or b leads again", func() bool { return a.Term().Number > term || b.Term().Number > term })
}

// Subscribers to the record's own subject are shown writes that the stream then
// refuses. Watches by republished records or by consumers are not.
func TestRefusedWriteIsTakenForNoRecord(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{republishing, other} {
		t.Run(kind, func(t *testing.T) {
			l, _ := underAttack(t, kind)
			a := join(t, l.connect(candidate), "a", ttl(long))
			a.leads()
			b := join(t, l.connect(candidate), "b", ttl(long))
			b.follows(a)
			eye := observe(t, l.connect(observer))
			eye.seesLeader("a")
			s := openStore(t, l.connect(candidate), natsstore.Options{})
			for i := range uint64(20) { // revisions that never were, so that the server must refuse
				_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: group, Expected: 1<<60 + i, Value: []byte(vacancy), Tombstone: true})
				if store.Classify(err) != store.Conflict {
					t.Fatalf("the write: %v", err)
				}
			}
			term := a.Term()
			a.renews(2)
			if a.Term() != term || b.Status().LeaderID != "a" {
				t.Errorf("a leads in %v after %v; b follows %q", a.Term(), term, b.Status().LeaderID)
			}
			a.resign()
			b.leads()
			if next := eye.sees("a change", func(s observation) bool { return s.info.ID != "a" }).info; next.Reason == "resigned" && next.Term == 1 {
				t.Errorf("the observer saw the refused write: %+v", next)
			}
		})
	}
}

// A record with a TTL far in the future is left alone for an hour and the
// drift, even if it names more. A number that no candidate writes makes it
// garbage, which contains no lease.
func TestForgedTTLIsBelievedForAnHourAtMost(t *testing.T) {
	for forged, believed := range map[string]time.Duration{
		"3600001": leader.MaxTTL, "31536000000": leader.MaxTTL, "9007199254740992": leader.MaxTTL,
		fmt.Sprint(int64(math.MaxInt64)): short, "9223372036854775808": short, "1e300": short,
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			body := fmt.Sprintf(`{"id":"rogue","token":"t","ttl":%s}`, forged)
			if _, err := st.CompareAndSwap(t.Context(), store.Write{Key: group, Value: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			won := make(chan time.Duration, 1)
			e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
				Group: group, InstanceID: "a", TTL: short, HeartbeatInterval: short / 6, AcquireGrace: leader.GraceOff,
			})
			if err != nil {
				t.Fatal(err)
			}
			e.OnPromote(func(context.Context, string) { won <- time.Since(start) })
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			limit := believed + believed/10
			if waited := <-won; waited < limit || waited > limit+time.Second {
				t.Errorf("TTL %s was believed for %v", forged, waited)
			}
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The reports of observers about such a leader end with the same hour.
func TestObserverBelievesAForgedTTLForAnHourAtMost(t *testing.T) {
	t.Parallel()
	l, kv := underAttack(t, republishing)
	if _, err := kv.Put(natslab.Within(t), group, []byte(`{"id":"rogue","token":"t","ttl":31536000000}`)); err != nil {
		t.Fatal(err)
	}
	info := observe(t, l.connect(observer)).seesLeader("rogue")
	if left := time.Until(info.Until); left > leader.MaxTTL+leader.MaxTTL/10 {
		t.Errorf("the lease lasts for %v", left)
	}
}
