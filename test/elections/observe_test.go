package elections_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The events that an observer of team.* receives.
const (
	atOnce      = "at once" // the initial state, and that it is complete
	withRenewal = "with the next renewal"
	nothing     = "nothing" // and the reason is reported
)

// The rights of an observer of the groups team.* in bucket b.
const (
	mayHear    = "leader.b.team.*" // to subscribe to
	mayInspect = "$JS.API.STREAM.INFO.KV_b"
	mayConsume = "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.team.*"
	mayAnswer  = "_INBOX_o.>" // to subscribe to
)

// That each of its rights is needed shows test/security. These are the sets
// that lack more than one, or have one in place of another.
func TestObserverOfManyWithSomeOfItsRightsSeesWhatTheyAllow(t *testing.T) {
	for _, c := range []struct {
		kind   string
		rights []string
		want   string
	}{
		{"republishing", []string{mayHear, mayInspect, mayConsume, mayAnswer}, atOnce}, // reads these keys only, where the right to read is for all
		{"republishing", []string{mayHear, mayAnswer}, withRenewal},
		{"republishing", []string{mayHear}, withRenewal},
		{"other", []string{mayAnswer}, nothing},
	} {
		t.Run(fmt.Sprint(c.kind, c.rights), func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t, natslab.Users(natslab.Admin(), observerWith(c.rights)))
			admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
			kinds[c.kind](t, admin)
			lead(t, admin, "team.a", "a")
			lead(t, admin, "elsewhere", "x")
			connect := func() *nats.Conn {
				return srv.Connect(t, nats.UserInfo("o", "o"), nats.CustomInboxPrefix("_INBOX_o"))
			}
			judgeObserver(t, connect(), observe(t, connect(), "team.*"), c.want)
		})
	}
}

// observerWith is a user who may publish and subscribe to nothing but the
// subjects given.
func observerWith(rights []string) *server.User {
	u := natslab.User("o", nil, nil)
	for _, r := range rights {
		if r == mayHear || r == mayAnswer {
			u.Permissions.Subscribe.Allow = append(u.Permissions.Subscribe.Allow, r)
		} else {
			u.Permissions.Publish.Allow = append(u.Permissions.Publish.Allow, r)
		}
	}
	// An empty list allows everything.
	if len(u.Permissions.Publish.Allow) == 0 {
		u.Permissions.Publish.Deny = []string{">"}
	}
	if len(u.Permissions.Subscribe.Allow) == 0 {
		u.Permissions.Subscribe.Deny = []string{">"}
	}
	return u
}

func judgeObserver(t *testing.T, nc *nats.Conn, o *told, want string) {
	t.Helper()
	switch want {
	case atOnce:
		// All events up to there: a group that the user may not observe must
		// not be among them.
		events := o.until("the end of the initial state", func(e event) bool { return e.present || e.failed != nil })
		if !presents(events, "team.a", "a") {
			t.Errorf("told %v", events)
		}
		infos, err := leader.Snapshot(natslab.Within(t), nc, "b", "team.*")
		if err != nil || len(infos) != 1 || infos[0].ID != "a" {
			t.Errorf("a snapshot: %+v, %v", infos, err)
		}
	case withRenewal:
		// The renewal may come before the denial is known.
		o.leads("team.a", "a")
		o.until("what is denied", func(e event) bool { return store.Classify(e.failed) == store.Permanent })
		for _, e := range o.all() {
			if e.present || e.info.Group != "" && e.info.Group != "team.a" {
				t.Errorf("told %v", e)
			}
		}
		if infos, err := leader.Snapshot(natslab.Within(t), nc, "b", "team.*"); store.Classify(err) != store.Permanent {
			t.Errorf("a snapshot: %+v, %v", infos, err)
		}
	default:
		events := o.until("an error", func(e event) bool { return e.failed != nil })
		if store.Classify(events[0].failed) != store.Permanent || len(events) != 1 {
			t.Errorf("told %v", events)
		}
		if infos, err := leader.Snapshot(natslab.Within(t), nc, "b", "team.*"); store.Classify(err) != store.Permanent {
			t.Errorf("a snapshot: %+v, %v", infos, err)
		}
	}
}

// presents reports whether the events contain one group's leader, followed by
// the end of the initial state. Renewals may come at any point.
func presents(events []event, group, id string) bool {
	n := len(events) - 1
	for _, e := range events[:n] {
		if e.info.Group != group || e.info.ID != id {
			return false
		}
	}
	return n > 0 && !events[0].renewed && events[n].present
}

// kinds are the two kinds of buckets.
var kinds = map[string]func(testing.TB, *nats.Conn){
	"republishing": func(tb testing.TB, nc *nats.Conn) {
		tb.Helper()
		if err := natsstore.EnsureBucket(natslab.Within(tb), natslab.JetStream(tb, nc), natsstore.BucketConfig{Bucket: "b"}); err != nil {
			tb.Fatal(err)
		}
	},
	"other": func(tb testing.TB, nc *nats.Conn) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: "b"})
	},
}

// lead elects a leader of the group, and returns its election.
func lead(tb testing.TB, nc *nats.Conn, group, id string) leader.Election {
	tb.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "b", Group: group, InstanceID: id, TTL: long, HeartbeatInterval: time.Second / 2, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		tb.Fatal(err)
	}
	won := make(chan struct{})
	once := sync.OnceFunc(func() { close(won) })
	e.OnPromote(func(context.Context, string) { once() })
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Stop() })
	select {
	case <-won:
	case <-natslab.Within(tb).Done():
		tb.Fatalf("%s never leads %s", id, group)
	}
	return e
}

// A told holds the events that an observer received, in their order.
type told struct {
	tb     testing.TB
	mu     sync.Mutex
	news   chan struct{} // closed and replaced with each
	events []event
	ended  chan error
}

// An event is one call of an Observer's functions.
type event struct {
	info    leader.LeaderInfo
	renewed bool
	present bool
	failed  error
}

func (e event) String() string {
	switch {
	case e.present:
		return "present"
	case e.failed != nil:
		return fmt.Sprint("failed: ", e.failed)
	default:
		return fmt.Sprintf("%s %q %s", e.info.Group, e.info.ID, e.info.Reason)
	}
}

// observe observes until the test ends.
func observe(tb testing.TB, nc *nats.Conn, pattern string) *told {
	tb.Helper()
	o := &told{tb: tb, news: make(chan struct{}), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.ended <- leader.ObserveFunc(ctx, nc, "b", pattern, leader.Observer{
			Leader:  func(l leader.LeaderInfo) { o.note(event{info: l}) },
			Renewed: func(l leader.LeaderInfo) { o.note(event{info: l, renewed: true}) },
			Present: func() { o.note(event{present: true}) },
			Failed:  func(err error) { o.note(event{failed: err}) },
		})
	}()
	tb.Cleanup(func() { cancel(); <-done })
	return o
}

func (o *told) note(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
	close(o.news)
	o.news = make(chan struct{})
}

func (o *told) all() []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// until waits for the first event that satisfies ok, and returns those up to
// it.
func (o *told) until(what string, ok func(event) bool) []event {
	o.tb.Helper()
	deadline := natslab.Within(o.tb)
	for from := 0; ; {
		o.mu.Lock()
		events, news := o.events, o.news
		o.mu.Unlock()
		for ; from < len(events); from++ {
			if ok(events[from]) {
				return events[:from+1]
			}
		}
		select {
		case <-news:
		case <-deadline.Done():
			o.tb.Fatalf("never reported: %s; reported %v", what, events)
		}
	}
}

func (o *told) leads(group, id string) {
	o.tb.Helper()
	o.until(id+" leads "+group, func(e event) bool { return e.info.Group == group && e.info.ID == id })
}
