package elections_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// handOver lets the group have a life: a leads, an operator asks for b, and
// both stop. It returns a's and b's terms.
func handOver(t *testing.T, connect func() *nats.Conn, hooks func() leader.Hooks) (terms [2]leader.Term) {
	t.Helper()
	a := stand(t, connect(), "a", hooked(hooks()))
	awaitLeader(t, a)
	terms[0] = a.Term()
	b := stand(t, connect(), "b", hooked(hooks()))
	awaitLeader(t, b)
	c, err := leader.NewControl(connect(), "leaders", "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Transfer(natslab.Within(t), jobs, "b", "new kernel"); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "b leads", func(context.Context) error {
		if terms[1] = b.Term(); terms[1].IsZero() {
			return errors.New(b.Status().State)
		}
		return nil
	})
	for _, e := range []leader.Election{a, b} {
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	return terms
}

// A tape is what a subject carried.
type tape struct {
	sub *nats.Subscription
}

func record(t *testing.T, nc *nats.Conn, subject string) tape {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(natslab.Patience); err != nil {
		t.Fatal(err)
	}
	return tape{sub}
}

// until returns the messages up to the first that is wanted.
func (r tape) until(t *testing.T, wanted func(*nats.Msg) bool) (all []*nats.Msg) {
	t.Helper()
	for {
		m, err := r.sub.NextMsg(natslab.Patience)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(all), err)
		}
		if all = append(all, m); wanted(m) {
			return all
		}
	}
}

// stopped matches the last message of an instance.
func stopped(instance string) func(*nats.Msg) bool {
	return func(m *nats.Msg) bool {
		a, err := advisory.Decode(m.Data)
		return err == nil && a.Instance == instance && a.Event == leader.EventStopped
	}
}

func decode(t *testing.T, m *nats.Msg) advisory.Advisory {
	t.Helper()
	a, err := advisory.Decode(m.Data)
	if err != nil {
		t.Fatalf("%v: %s", err, m.Data)
	}
	return a
}

func TestAdvisoriesShowEveryTransitionWithoutItsToken(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	connect := func() *nats.Conn { return srv.Connect(t) }
	heard := record(t, connect(), advisory.Subject("leaders", "*", jobs))
	var transitions []leader.Transition // of a
	terms := handOver(t, connect, func() leader.Hooks {
		mine := leader.Hooks{PerElection: func(_ leader.Election, cfg leader.ElectionConfig) leader.Hooks {
			if cfg.InstanceID != "a" {
				return leader.Hooks{}
			}
			return leader.Hooks{Transition: func(tr leader.Transition) { transitions = append(transitions, tr) }}
		}}
		return leader.JoinHooks(mine, advisory.Hooks(connect(), advisory.Options{}))
	})
	n := 0
	for _, m := range heard.until(t, stopped("b")) {
		for _, term := range terms {
			if strings.Contains(string(m.Data), term.Token) {
				t.Errorf("a token in the clear: %s", m.Data)
			}
		}
		a := decode(t, m)
		if m.Subject != advisory.Subject("leaders", a.Event, jobs) || m.Header.Get(nats.MsgIdHdr) != a.ID {
			t.Errorf("%s, %v: %+v", m.Subject, m.Header, a)
		}
		if a.Instance != "a" {
			continue
		}
		tr := transitions[n]
		n++
		want := advisory.Advisory{
			Version: 1, ID: a.ID, Seq: uint64(n), Time: tr.At.UTC(), Bucket: "leaders", Group: jobs, Instance: "a",
			Event: tr.Event, From: tr.From, To: tr.To, Reason: tr.Reason, By: tr.By, Why: tr.Why, Term: tr.Term.Number,
			Leader: tr.LeaderID, LeaderTerm: tr.LeaderTerm, Correlation: tr.Correlation,
		}
		if a.Time = a.Time.UTC(); !a.Time.Equal(want.Time) {
			t.Errorf("%v, want %v", a.Time, want.Time)
		}
		if a.Time = want.Time; a != want {
			t.Errorf("%+v\nwant %+v", a, want)
		}
		if a.Event == leader.EventDemoted && a.From == leader.StateLeader && (a.Reason != leader.ReasonTransferred || a.By != "ann" || a.Why != "new kernel") {
			t.Errorf("%+v", a)
		}
	}
	if n != len(transitions) {
		t.Errorf("%d of %d transitions were heard before the last", n, len(transitions))
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(advisory.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestAdvisoriesSatisfyTheSchema(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	connect := func() *nats.Conn { return srv.Connect(t) }
	heard := record(t, connect(), "leader-advisory.>")
	publish := advisory.Hooks(connect(), advisory.Options{Notes: true})
	// Each kind of note that is published, whether or not it happens here.
	every := leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		h := publish.PerElection(e, cfg)
		for _, kind := range noteworthy() {
			h.Note(leader.Note{At: time.Now(), Kind: kind, Call: "renew", Text: strings.Repeat("é", 5000), Correlation: "0123abcd"})
		}
		h.Note(leader.Note{At: time.Now(), Kind: leader.NoteStale, Text: "not worth it"})
		return h
	}}
	handOver(t, connect, func() leader.Hooks { return every })
	s := compile(t)
	events, notes := map[leader.Event]bool{}, map[string]bool{}
	for _, m := range heard.until(t, stopped("b")) {
		if err := validate(t, s, m.Data); err != nil {
			t.Errorf("%s\n%v", m.Data, err)
		}
		a := decode(t, m)
		events[a.Event] = true
		notes[a.Note] = true
	}
	for _, event := range []leader.Event{
		leader.EventCampaigning, leader.EventFollowing, leader.EventPromoted, leader.EventDemoted, leader.EventStopped, advisory.EventNote,
	} {
		if !events[event] {
			t.Errorf("no %s was heard", event)
		}
	}
	for _, kind := range noteworthy() {
		if !notes[kind] {
			t.Errorf("no note %s was heard", kind)
		}
	}
	if notes[leader.NoteStale] {
		t.Error("a note was heard that is of no interest")
	}
}

func noteworthy() []string {
	return []string{
		leader.NoteWarning, leader.NoteResolved, leader.NoteRegressed, leader.NoteOverrun, leader.NoteGaveUp, leader.NoteNotReady,
		leader.NotePanic, leader.NoteBadToken, leader.NoteMalformed, leader.NoteBarred, leader.NoteUnbarred,
	}
}

// The schema is of use only if it refuses something.
func TestAdvisorySchemaRefusesOtherMessages(t *testing.T) {
	t.Parallel()
	s := compile(t)
	const good = `{"version":1,"id":"x-1","seq":1,"time":"2026-11-20T14:03:07Z","group":"g","instance":"a",` +
		`"event":"promoted","from":"CANDIDATE","to":"LEADER","term":7,"leader":"a","correlation":"0123abcd"`
	if err := validate(t, s, []byte(good+`,"mood":"good"}`)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`"version":1`, `"version":2`}, {`"seq":1,`, ``}, {`14:03:07Z`, `noon`}, {`"group":"g"`, `"group":""`}, {`promoted`, `crowned`},
		{`"LEADER"`, `"KING"`}, {`"term":7,`, ``}, {`"term":7`, `"term":-7`}, {`0123abcd`, `3f9a6f8d-1a2b-4cde-9f1a-c0b123456789`},
		{`"term":7`, `"token":"t","term":7`}, {`promoted`, `note`},
	} {
		if err := validate(t, s, []byte(strings.Replace(good, change[0], change[1], 1)+"}")); err == nil {
			t.Errorf("%s in place of %s was taken", change[1], change[0])
		}
	}
}

// history reads the advisories that a stream has kept, as an operator's program
// does.
func history(ctx context.Context, js jetstream.JetStream, stream string, subjects ...string) iter.Seq2[advisory.Advisory, error] {
	return func(yield func(advisory.Advisory, error) bool) {
		c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: subjects})
		if err != nil {
			yield(advisory.Advisory{}, err)
			return
		}
		info, err := c.Info(ctx)
		if err != nil {
			yield(advisory.Advisory{}, err)
			return
		}
		for range info.NumPending {
			m, err := c.Next(jetstream.FetchMaxWait(natslab.Patience))
			if err != nil {
				yield(advisory.Advisory{}, err)
				return
			}
			if a, err := advisory.Decode(m.Data()); !yield(a, err) {
				return
			}
		}
	}
}

// reaches waits until what the connection publishes is stored. A stream of a
// cluster may have no leader for a moment after it was made, and the servers
// hear of its interest one after the other; what is published before is lost.
func reaches(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	js := natslab.JetStream(t, nc)
	natslab.Eventually(t, "a message is stored", func(ctx context.Context) error {
		_, err := js.Publish(ctx, subject, nil, jetstream.WithRetryAttempts(0))
		return err
	})
}

func TestAdvisoriesKeptInAClusterShowWhoLedAtAnyTime(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	connect := func() *nats.Conn { return cluster.Connect(t) }
	js := natslab.JetStream(t, connect())
	natslab.Eventually(t, "stream made", func(ctx context.Context) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LEADER_HISTORY", Subjects: []string{"leader-advisory.>"}})
		return err
	})
	begun := time.Now()
	terms := handOver(t, connect, func() leader.Hooks {
		nc := connect()
		reaches(t, nc, "leader-advisory.ready")
		return advisory.Hooks(nc, advisory.Options{})
	})
	ended := time.Now()
	var told []advisory.Term
	// The servers may still pass on what was published last.
	natslab.Eventually(t, "history read to its end", func(ctx context.Context) error {
		var all []advisory.Advisory
		for a, err := range history(ctx, js, "LEADER_HISTORY", advisory.Subject("leaders", "*", jobs)) {
			if err != nil {
				return err
			}
			all = append(all, a)
		}
		told = advisory.Terms(slices.Values(all))
		if len(told) == 0 || told[len(told)-1].Leader != "b" || told[len(told)-1].Ended.IsZero() {
			return fmt.Errorf("%+v", told)
		}
		return nil
	})
	if len(told) != 2 {
		t.Fatalf("%+v", told)
	}
	a, b := told[0], told[1]
	if a.Leader != "a" || a.Number != terms[0].Number || a.Correlation != terms[0].Correlation() || a.Reason != leader.ReasonTransferred || a.By != "ann" {
		t.Errorf("%+v", a)
	}
	if b.Leader != "b" || b.Number != terms[1].Number || b.Reason != leader.ReasonStopped {
		t.Errorf("%+v", b)
	}
	for at, want := range map[time.Time]string{
		begun: "", a.Began: "a", a.Ended.Add(-1): "a", b.Began: "b", b.Ended.Add(-1): "b", b.Ended: "", ended: "",
	} {
		var who string
		for _, r := range told {
			if r.Covers(at) {
				who += r.Leader
			}
		}
		if who != want {
			t.Errorf("at %v %q led, want %q", at, who, want)
		}
	}
}

func TestAdvisoryReadersSkipOtherMessages(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	ctx := natslab.Within(t)
	go func() {
		// The subscription begins with the iteration.
		for nc.NumSubscriptions() == 0 && ctx.Err() == nil {
			_ = nc.FlushTimeout(natslab.Patience)
		}
		s := advisory.Subject("leaders", leader.EventPromoted, "jobs.x")
		_ = nc.Publish(s, []byte("hello"))
		_ = nc.Publish(s, []byte(`{"version":1,"seq":2,"bucket":"leaders","group":"jobs.y","instance":"a","event":"promoted"}`))
		_ = nc.Publish(s, []byte(`{"version":1,"seq":3,"bucket":"leaders","group":"jobs.x","instance":"a","event":"promoted"}`))
	}()
	strange := 0
	for a, err := range advisory.Subscribe(ctx, nc, advisory.Subject("leaders", "*", "jobs.>")) {
		switch {
		case errors.Is(err, advisory.ErrMalformed):
			strange++
			continue
		case err != nil:
			t.Fatal(err)
		}
		if a.Seq != 3 || strange != 2 {
			t.Errorf("%+v after %d strange messages", a, strange)
		}
		return
	}
	t.Error("nothing was heard")
}

func TestAdvisorySubscriptionEndsWithItsContextAndWithItsConnection(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for a, err := range advisory.Subscribe(ctx, nc, "leader-advisory.>") {
		t.Errorf("%+v, %v", a, err)
	}
	nc.Close()
	n := 0
	for _, err := range advisory.Subscribe(natslab.Within(t), nc, "leader-advisory.>") {
		n++
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

func TestAdvisoriesNeedOneRight(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("events", []string{advisory.Subject("leaders", "*", jobs)}, nil)))
	connect := func() *nats.Conn { return srv.Connect(t, nats.UserInfo("admin", "admin")) }
	heard := record(t, connect(), "leader-advisory.>")
	denied := make(chan error, 100)
	nc := srv.Connect(t, nats.UserInfo("events", "events"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	handOver(t, connect, func() leader.Hooks { return advisory.Hooks(nc, advisory.Options{Notes: true}) })
	heard.until(t, stopped("b"))
	if len(denied) > 0 {
		t.Error(<-denied)
	}
}

func TestAdvisoriesOfFilteredEventsAreNotPublished(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	connect := func() *nats.Conn { return srv.Connect(t) }
	heard := record(t, connect(), "leader-advisory.>")
	opts := advisory.Options{Events: []leader.Event{leader.EventPromoted, leader.EventStopped}}
	handOver(t, connect, func() leader.Hooks { return advisory.Hooks(connect(), opts) })
	for _, m := range heard.until(t, stopped("b")) {
		if a := decode(t, m); !slices.Contains(opts.Events, a.Event) {
			t.Errorf("%+v", a)
		}
	}
}

// The election has a separate connection and goes on. Its advisories wait for
// the other connection, which buffers nothing. Advisories that are too old for
// the queue are dropped and counted.
func TestAdvisoriesWaitForTheConnectionAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL(), nats.ReconnectBufSize(-1), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	heard := record(t, srv.Connect(t), "leader-advisory.>")
	p := advisory.New(nc, advisory.Options{Queue: 3})
	proxy.Cut()
	natslab.Eventually(t, "the connection is down", func(context.Context) error {
		if nc.IsConnected() {
			return errors.New("connected")
		}
		return nil
	})
	e, other := stand(t, srv.Connect(t), "a", hooked(p.Hooks())), stand(t, srv.Connect(t), "b")
	awaitLeader(t, e)
	awaitLeader(t, other)
	c, err := leader.NewControl(srv.Connect(t), "leaders", "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 6 {
		if _, err := c.StepDown(natslab.Within(t), jobs, ""); err != nil {
			t.Fatal(err)
		}
	}
	if p.Dropped() == 0 {
		t.Error("the queue of 3 has no end")
	}
	proxy.Resume()
	m := heard.until(t, func(*nats.Msg) bool { return true })[0]
	if a := decode(t, m); a.Seq == 0 {
		t.Errorf("%+v", a)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	last := heard.until(t, stopped("a"))
	if a := decode(t, last[len(last)-1]); a.Seq <= uint64(len(last)) {
		t.Errorf("the gap does not show: %d messages, the last is number %d", len(last), a.Seq)
	}
}

func TestStopWaitsForAdvisoriesNoLongerThanFlushTimeout(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL())
	e := stand(t, srv.Connect(t), "a", hooked(advisory.Hooks(nc, advisory.Options{FlushTimeout: 50 * time.Millisecond})))
	awaitLeader(t, e)
	proxy.Hold()
	if err := e.StopWithContext(natslab.Within(t), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
		t.Fatal(err)
	}
	proxy.Resume()
}
