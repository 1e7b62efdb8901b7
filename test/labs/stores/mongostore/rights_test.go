package mongostore_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mongostore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// The actions that the package documentation lists.
var (
	candidateActions = []string{"find", "insert", "update", "changeStream"}
	observerActions  = []string{"find", "changeStream"}
)

// unauthorized is the code of an error by which a server refuses a user.
const unauthorized = 13

// user makes a user who may do this in the collection and nothing else, and
// returns options by which a client is this user.
func (l *lab) user(t *testing.T, name, collection string, actions []string) *options.ClientOptions {
	t.Helper()
	if l.Options().Auth == nil {
		t.Skip("SKIPPED, NOT TESTED: LEADER_MONGODB_URI names no user, and a server that asks for none keeps nobody from anything")
	}
	db := l.Client(t).Database(l.Database)
	run := func(command bson.D) {
		t.Helper()
		err := db.RunCommand(trial.Within(t), command).Err()
		if refused(err) {
			t.Skipf("SKIPPED, NOT TESTED: the user of LEADER_MONGODB_URI may not make roles and users: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	privileges := bson.A{} // and not null
	if len(actions) > 0 {
		resource := bson.D{{Key: "db", Value: l.Database}, {Key: "collection", Value: collection}}
		privileges = bson.A{bson.D{{Key: "resource", Value: resource}, {Key: "actions", Value: actions}}}
	}
	run(bson.D{{Key: "createRole", Value: name}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}})
	t.Cleanup(func() {
		_ = db.RunCommand(trial.Within(t), bson.D{{Key: "dropRole", Value: name}}).Err() // its name is used once
	})
	run(bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{name}}})
	t.Cleanup(func() {
		_ = db.RunCommand(trial.Within(t), bson.D{{Key: "dropUser", Value: name}}).Err()
	})
	return options.Client().SetAuth(options.Credential{AuthSource: l.Database, Username: name, Password: "secret"})
}

// refused reports whether a server refused a command for its user.
func refused(err error) bool {
	answer, is := errors.AsType[mongo.CommandError](err)
	return is && answer.Code == unauthorized
}

// streams counts the change streams that a client has opened.
func streams(n *atomic.Int64) *options.ClientOptions {
	return options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "aggregate" {
			n.Add(1)
		}
	}})
}

// The rights are those in the package documentation.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name := l.collection()
	may := l.user(t, "candidate", name, candidateActions)
	candidate := l.open(t, name, may)
	if _, err := trial.Check(t, candidate); err != nil {
		t.Fatalf("a candidate: %v", err)
	}
	var opened atomic.Int64
	observer := l.open(t, name, l.user(t, "observer", name, observerActions), streams(&opened))
	h := trial.Listen(t, observer, "group")
	trial.Await(t, "the observer's change stream", func() bool { return opened.Load() > 0 })
	rev := trial.Must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	rev = trial.Must(t, candidate, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
	h.Until("a candidate's write", func(e store.Entry) bool { return e.Revision == rev })
	if _, err := observer.Check(trial.Within(t), store.CheckRequest{}); err != nil {
		t.Errorf("an observer: %v", err)
	}

	_, err := trial.Check(t, observer)
	trial.Outcome(t, err, store.Permanent)
	_, err = observer.CompareAndSwap(trial.Within(t), store.Write{Key: "group", Expected: rev})
	trial.Outcome(t, err, store.Permanent)
	stranger := l.open(t, name, l.user(t, "stranger", name, nil))
	_, err = stranger.Get(trial.Within(t), "group")
	trial.Outcome(t, err, store.Permanent)
	_, err = trial.Check(t, stranger)
	trial.Outcome(t, err, store.Permanent)
	_, err = stranger.CompareAndSwap(trial.Within(t), store.Write{Key: "group", Expected: rev})
	trial.Outcome(t, err, store.Permanent)
	if e := trial.Get(t, candidate, "group"); e.Revision != rev {
		t.Errorf("the register is at %+v", e)
	}

	db := l.Client(t, may).Database(l.Database)
	for what, command := range map[string]bson.D{
		"remove a record":         {{Key: "delete", Value: name}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "limit", Value: 0}}}}},
		"drop the collection":     {{Key: "drop", Value: name}},
		"read another collection": {{Key: "find", Value: "other"}},
		"write to another":        {{Key: "insert", Value: "other"}, {Key: "documents", Value: bson.A{bson.D{}}}},
		"drop the database":       {{Key: "dropDatabase", Value: 1}},
	} {
		if err := db.RunCommand(trial.Within(t), command).Err(); !refused(err) {
			t.Errorf("a candidate may %s: %v", what, err)
		}
	}
}

// Without one of its rights a candidate's claim is refused permanently, and
// without the right to change streams it finds changes by looking.
func TestEachRightOfACandidateIsNeeded(t *testing.T) {
	t.Parallel()
	l := ours(t)
	for _, right := range candidateActions {
		name := l.collection()
		s := l.open(t, name, l.user(t, "without-"+right, name, slices.DeleteFunc(slices.Clone(candidateActions), func(a string) bool { return a == right })))
		_, check := trial.Check(t, s)
		if right == "changeStream" {
			trial.Outcome(t, check, store.OK)
			looks(t, s)
			continue
		}
		if right != "insert" { // which no harmless write asks for
			trial.Outcome(t, check, store.Permanent)
		}
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "group"})
		trial.Outcome(t, err, store.Permanent)
	}
}

// looks demands that a watch hears of writes, and counts as connected.
func looks(t *testing.T, s *mongostore.Store) {
	t.Helper()
	h := trial.Listen(t, s, "group")
	rev := uint64(0)
	for range 3 {
		rev = trial.Must(t, s, store.Write{Key: "group", Expected: rev, Value: []byte("v")})
		h.Until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	if state := s.ConnState(); state != store.Connected {
		t.Errorf("without the right to change streams the store is %v", state)
	}
}
