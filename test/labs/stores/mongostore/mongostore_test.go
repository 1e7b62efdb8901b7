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
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/ferretlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/mongolab"
	"github.com/seed-ff2cb582/leader/test/natslab"
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

// judge takes conflicts into the order: what was refused was compared with what
// is there.
var judge = histories.Judge{CurrentConflicts: true}

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

func (l *lab) remove(tb testing.TB, collection string) func(key string) error {
	registers := l.Client(tb).Database(l.Database).Collection(collection)
	return func(key string) error {
		_, err := registers.DeleteOne(trial.Within(tb), bson.D{{Key: "_id", Value: key}})
		return err
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	l := ours(t)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		name := l.collection()
		return storetest.Harness{
			Open:   func(tb testing.TB) store.Store { return l.open(tb, name) },
			Delete: l.remove(tb, name),
			Purge:  l.remove(tb, name),
		}
	}, storetest.Caps{
		MaxValue: mongostore.MaxValue,
		NoPut:    "other tools would have to know the revision", NoVisible: "a tombstone is a field of its document",
		NoInterrupt: "the server is somebody else's",
	})
}

func TestElections(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name := l.collection()
	elections.Run(t, elections.Harness{
		Open: func(tb testing.TB) store.Store { return l.open(tb, name) }, Delete: l.remove(t, name), TTL: 3 * time.Second,
	})
}

func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name := l.collection()
	trial.Histories(t, judge, 3, func(int) []store.Store {
		return []store.Store{l.open(t, name), l.open(t, name), l.open(t, name)}
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name, primary := l.collection(), l.Primary(t)
	var proxies []*natslab.Proxy
	var stores []store.Store
	for range 4 {
		p := natslab.NewProxy(t, primary)
		proxies = append(proxies, p)
		stores = append(stores, l.open(t, name, l.Through(primary, p.Addr())))
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{Stores: append(stores, l.open(t, name)), Faults: trial.Spoil(proxies...), Rounds: 2})
}

func TestAWriteWhoseAnswerIsLostIsUnknownAndSentOnce(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name, primary := l.collection(), l.Primary(t)
	var writes atomic.Int64
	counted := options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "findAndModify" {
			writes.Add(1)
		}
	}})
	trial.LostAnswers(t, trial.Way{
		Addr: primary,
		Open: func(tb testing.TB, addr string) store.Store {
			return l.open(tb, name, l.Through(primary, addr), counted)
		},
		Sound:  l.open(t, name),
		Writes: writes.Load,
	})
}

func TestAWriteToAServerThatDoesNotAnswerIsUnknownAndMayLandLater(t *testing.T) {
	t.Parallel()
	l := ours(t)
	primary := l.Primary(t)
	p := natslab.NewProxy(t, primary)
	trial.Frozen(t, l.open(t, l.collection(), l.Through(primary, p.Addr())), held{p}, false)
}

// The server is somebody else's, so that only the ways to it come to harm.
func TestAnElectionOutlivesItsWays(t *testing.T) {
	t.Parallel()
	l := ours(t)
	name, primary := l.collection(), l.Primary(t)
	trial.Outlive(t, 3*time.Second, trial.NewWays(t, 3, primary), func(addr string) store.Store {
		return l.open(t, name, l.Through(primary, addr))
	})
}

// held is a server that is somebody else's, and seems frozen on one way alone.
type held struct{ *natslab.Proxy }

func (h held) Freeze() { h.Hold(natslab.ToServer, natslab.ToClient) }
func (h held) Thaw()   { h.Resume() }

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
		t.Errorf("Check says %v", err)
	}
	// Nor does a write, which is not made by those who did not check.
	if _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g"}); store.Classify(err) == store.OK {
		t.Error("a write is taken")
	}
	// This is why. It is no failure where luck has it that none of them win
	// twice.
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
