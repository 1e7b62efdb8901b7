package leadertest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leadertest"
)

// t is the argument of the test whose body an example shows.
var t *testing.T

// TestExamples runs the examples, which are bodies of tests.
func TestExamples(test *testing.T) {
	for name, example := range map[string]func(){"New": ExampleNew, "NewGroup": ExampleNewGroup} {
		test.Run(name, func(test *testing.T) {
			t = test
			example()
		})
	}
}

// A service works while it leads. The test makes it lead, and takes that away.
func ExampleNew() {
	synctest.Test(t, func(t *testing.T) {
		election := leadertest.New(t, leader.ElectionConfig{TTL: 3 * time.Second})

		// The service: it takes a leader.Election.
		var works atomic.Bool
		election.OnPromote(func(ctx context.Context, _ string) {
			works.Store(true)
			<-ctx.Done()
			works.Store(false)
		})
		if err := election.Start(t.Context()); err != nil {
			t.Fatal(err)
		}

		election.Promote()
		synctest.Wait()
		if !works.Load() {
			t.Error("it leads and does not work")
		}
		election.Demote()
		if works.Load() {
			t.Error("it works, and another leads")
		}

		// Three seconds of virtual time pass at once.
		election.Promote()
		election.Expire()
		synctest.Wait()
		if works.Load() {
			t.Error("it was cut off, its lease has run out, and it works")
		}
	})
}

// Three copies of a program, of which one may work. The one that does is cut
// off, and comes back.
func ExampleNewGroup() {
	synctest.Test(t, func(t *testing.T) {
		g := leadertest.NewGroup(t, leader.ElectionConfig{TTL: 3 * time.Second})

		// The program: it takes a store and a configuration.
		var working atomic.Int32
		program := func(ctx context.Context, id string) error {
			return leader.RunWithStore(ctx, g.Store(id), g.Config(id), func(ctx context.Context, _ leader.Term) error {
				if working.Add(1) != 1 {
					t.Error("two work at once")
				}
				<-ctx.Done()
				working.Add(-1)
				return nil
			})
		}
		ctx, stop := context.WithCancel(t.Context())
		var copies sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			copies.Go(func() {
				if err := program(ctx, id); err != nil {
					t.Error(err)
				}
			})
		}

		first := g.Leader()
		g.Store(first).CutOff()
		time.Sleep(4 * time.Second)
		if second := g.Leader(); second == first {
			t.Errorf("%s leads, which is cut off", first)
		}
		g.Store(first).Reconnect()
		g.Promote(first)

		stop()
		copies.Wait()
	})
}
