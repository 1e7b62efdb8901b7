package observe_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// What an observer of team.* learns.
const (
	at    = "at once" // the present state, and that it is complete
	later = "with the next renewal"
	never = "nothing" // and it is told why
)

// The rights of an observer of the groups team.* in bucket b.
const (
	hear     = "leader.b.team.*" // to subscribe to
	info     = "$JS.API.STREAM.INFO.KV_b"
	consumer = "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.team.*"
	replies  = "_INBOX_o.>" // to subscribe to
)

// That each of its rights is needed shows test/security. These are the sets
// that lack more than one, or have one in place of another.
func TestObserverOfManyMakesTheMostOfItsRights(t *testing.T) {
	for _, c := range []struct {
		kind   string
		rights []string
		want   string
	}{
		{"republishing", []string{hear, info, consumer, replies}, at}, // reads these keys only, where the right to read is for all
		{"republishing", []string{hear, replies}, later},
		{"republishing", []string{hear}, later},
		{"other", []string{replies}, never},
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
			judge(t, connect(), observe(t, connect(), "team.*"), c.want)
		})
	}
}

// observerWith is a user who may publish and subscribe to nothing but the
// subjects given.
func observerWith(rights []string) *server.User {
	u := natslab.User("o", nil, nil)
	for _, r := range rights {
		if r == hear || r == replies {
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

func judge(t *testing.T, nc *nats.Conn, o *told, want string) {
	t.Helper()
	switch want {
	case at:
		// All that is told up to there: a group of which the user may not hear
		// must not be among it.
		events := o.until("the end of the present state", func(e event) bool { return e.present || e.failed != nil })
		if !presents(events, "team.a", "a") {
			t.Errorf("told %v", events)
		}
		infos, err := leader.Snapshot(natslab.Within(t), nc, "b", "team.*")
		if err != nil || len(infos) != 1 || infos[0].ID != "a" {
			t.Errorf("a snapshot: %+v, %v", infos, err)
		}
	case later:
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

// presents reports whether the events tell of one group's leader, and then that
// this is all. Renewals come when they come.
func presents(events []event, group, id string) bool {
	n := len(events) - 1
	for _, e := range events[:n] {
		if e.info.Group != group || e.info.ID != id {
			return false
		}
	}
	return n > 0 && !events[0].renewed && events[n].present
}
