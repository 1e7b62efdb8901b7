package discovery_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A board is a discovery system: it shows one entry for each group, and its
// version is how often it was changed.
type board struct {
	mu      sync.Mutex
	version int
	entries map[string]discovery.Entry
}

func (b *board) Look(_ context.Context, group string) (discovery.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[group]
	return discovery.Standing{Entry: e, LastTerm: e.Term, Version: strconv.Itoa(b.version)}, nil
}

func (b *board) Announce(_ context.Context, e discovery.Entry, stands discovery.Standing) error {
	return b.change(e, stands, "announced: "+e.Address)
}

func (b *board) Withdraw(_ context.Context, stands discovery.Standing) error {
	return b.change(discovery.Entry{Group: stands.Entry.Group}, stands, "withdrawn: "+stands.Entry.Address)
}

// change is the compare-and-swap that every adapter needs.
func (b *board) change(e discovery.Entry, stands discovery.Standing, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if stands.Version != strconv.Itoa(b.version) {
		return discovery.ErrChanged
	}
	b.version++
	b.entries[e.Group] = e
	fmt.Println(what)
	return nil
}

// A candidate of leader.Run keeps its entry while it leads. The adapter here is
// for a custom system.
func ExampleKeep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := &board{entries: map[string]discovery.Entry{}}
	var keeping sync.WaitGroup
	announced := make(chan struct{}, 1)
	cfg := leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 10 * time.Second, HeartbeatInterval: 3 * time.Second, Address: "10.0.0.7:8080",
		AcquireGrace: leader.GraceOff, // the store is new, and nobody led before
	}
	cfg.Hooks.PerElection = func(e leader.Election, _ leader.ElectionConfig) leader.Hooks {
		keeping.Go(func() {
			err := discovery.Keep(ctx, e, b, discovery.Options{Report: func(ev discovery.Event) {
				if ev.Kind == discovery.Announced {
					announced <- struct{}{}
				}
			}})
			if err != nil {
				fmt.Println(err)
			}
		})
		return leader.Hooks{}
	}
	err := leader.RunWithStore(ctx, memstore.New(), cfg, func(context.Context, leader.Term) error {
		<-announced // work here, until the term ends
		cancel()
		return nil
	})
	keeping.Wait()
	fmt.Println(err)
	// Output:
	// announced: 10.0.0.7:8080
	// withdrawn: 10.0.0.7:8080
	// <nil>
}

// The candidates announce nothing, as candidates of other programs. A follower
// announces them.
func ExampleFollowWithStore() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st, b := memstore.New(), &board{entries: map[string]discovery.Entry{}}
	done := make(chan discovery.Kind, 2)
	var following sync.WaitGroup
	following.Go(func() {
		err := discovery.FollowWithStore(ctx, st, "reports", b, discovery.Options{Report: func(ev discovery.Event) { done <- ev.Kind }})
		if err != nil {
			fmt.Println(err)
		}
	})
	err := leader.RunWithStore(ctx, st, leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second, Address: "10.0.0.7:8080",
	}, func(context.Context, leader.Term) error {
		fmt.Println(<-done)
		return nil // it leaves
	})
	fmt.Println(<-done, err)
	cancel()
	following.Wait()
	// Output:
	// announced: 10.0.0.7:8080
	// announced
	// withdrawn: 10.0.0.7:8080
	// removed <nil>
}
