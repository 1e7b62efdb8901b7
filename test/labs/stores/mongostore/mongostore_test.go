// Package mongostore_test judges the store for MongoDB on the server that
// LEADER_MONGODB_URI names, and its refusal of another on FerretDB.
package mongostore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mongostore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/ferretlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/mongolab"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A lab is a server, and collections of the test's own.
type lab struct {
	*mongolab.Lab
	number atomic.Int64
}

// ours is the lab of the server that the environment names.
func ours(tb testing.TB) *lab {
	tb.Helper()
	return &lab{Lab: mongolab.Start(tb)}
}

func (l *lab) collection() string { return fmt.Sprintf("c%d", l.number.Add(1)) }

// open opens a store by the lab's URI, with the changes to it.
func (l *lab) open(tb testing.TB, collection string, changes ...*options.ClientOptions) *mongostore.Store {
	tb.Helper()
	opts := mongostore.Options{Collection: collection, Logger: slog.New(slog.DiscardHandler)}
	s, err := mongostore.New(l.Client(tb, changes...).Database(l.Database), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// The server is somebody else's, so that only the ways to it come to harm.
func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		l := ours(tb)
		s := judge.Subject{Registers: l.registers}
		if !strings.HasPrefix(l.URI, "mongodb+srv:") {
			s.Addrs = []string{l.Primary(tb)}
		}
		return s
	}, trial.Flags(judge.Options{Lease: 3 * time.Second, Caps: storetest.Caps{
		MaxValue: mongostore.MaxValue,
		NoPut:    "other tools would have to know the revision", NoVisible: "a tombstone is a field of its document",
		NoInterrupt: "the server is somebody else's",
	}}))
}

// registers are the registers of a new collection.
func (l *lab) registers(tb testing.TB) judge.Registers {
	tb.Helper()
	name := l.collection()
	documents := l.Client(tb).Database(l.Database).Collection(name)
	remove := func(key string) error {
		_, err := documents.DeleteOne(trial.Within(tb), bson.D{{Key: "_id", Value: key}})
		return err
	}
	var writes atomic.Int64
	counted := options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "findAndModify" {
			writes.Add(1)
		}
	}})
	return judge.Registers{
		Harness: storetest.Harness{Open: func(tb testing.TB) store.Store { return l.open(tb, name) }, Delete: remove, Purge: remove},
		At: func(tb testing.TB, addr string) store.Store {
			return l.open(tb, name, l.Through(l.Primary(tb), addr), counted)
		},
		Writes: writes.Load,
		Lend: func(tb testing.TB) judge.Loan {
			client := l.Client(tb)
			s, err := mongostore.New(client.Database(l.Database), mongostore.Options{Collection: name})
			if err != nil {
				tb.Fatal(err)
			}
			return judge.Loan{Store: s, Works: func() error { return client.Ping(trial.Within(tb), nil) }}
		},
	}
}

// FerretDB takes the commands of MongoDB, and is refused.
func TestAServerThatOnlySpeaksTheProtocolIsRefused(t *testing.T) {
	t.Parallel()
	uri := ferretlab.Start(t)
	s, err := mongostore.Open(trial.Within(t), uri+"/app?collection=votes")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is under way
	_, err = s.Check(trial.Within(t), store.CheckRequest{TTL: time.Minute, Key: "g"})
	if store.Classify(err) != store.Permanent || !strings.Contains(err.Error(), "ferretdb") {
		t.Errorf("Check returns %v", err)
	}
	// Nor does a write, which is not made by those who did not check.
	if _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g"}); store.Classify(err) == store.OK {
		t.Error("a write is taken")
	}
	// This is why. The test does not fail if, by luck, none of them win twice.
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(trial.Within(t)) //nolint:errcheck // nothing is under way
	t.Logf("of 20 races of 8 rivals for one revision %d had several winners", severalWinners(t, client.Database("app").Collection("plain")))
}

// severalWinners runs races of plain conditional updates.
func severalWinners(t *testing.T, c *mongo.Collection) (several int) {
	t.Helper()
	for n := range int64(20) {
		id := fmt.Sprintf("r%d", n)
		if _, err := c.InsertOne(trial.Within(t), bson.D{{Key: "_id", Value: id}, {Key: "rev", Value: int64(1)}}); err != nil {
			t.Fatal(err)
		}
		var winners atomic.Int64
		var all sync.WaitGroup
		for i := range int64(8) {
			all.Go(func() {
				update := bson.D{{Key: "$set", Value: bson.D{{Key: "rev", Value: 2 + i}}}}
				result, err := c.UpdateOne(trial.Within(t), bson.D{{Key: "_id", Value: id}, {Key: "rev", Value: int64(1)}}, update)
				if err == nil {
					winners.Add(result.MatchedCount)
				}
			})
		}
		all.Wait()
		if winners.Load() > 1 {
			several++
		}
	}
	return several
}
