package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The short way: one function that leads. With NATS it is leader.Run(ctx, nc,
// cfg, lead).
func ExampleRunWithStore() {
	cfg := leader.ElectionConfig{
		Group:             "scheduler",
		InstanceID:        "worker-1",
		TTL:               3 * time.Second,
		HeartbeatInterval: time.Second,
	}
	err := leader.RunWithStore(context.Background(), memstore.New(), cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		// A service would work here until <-ctx.Done(). This one has finished
		// its work.
		return ctx.Err()
	})
	fmt.Println("done:", err)
	// Output:
	// leading in term 1
	// done: <nil>
}

// The long way: callbacks, and a stop that hands over at once.
func ExampleNewElectionWithStore() {
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group:             "scheduler",
		InstanceID:        "worker-1",
		TTL:               3 * time.Second,
		HeartbeatInterval: time.Second,
		DeleteOnStop:      true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	e.OnPromote(func(context.Context, string) {
		fmt.Println("promoted: start the work, and end it with the context")
		close(promoted)
	})
	e.OnDemote(func() { fmt.Println("demoted: the work has stopped when this returns") })
	if err := e.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	<-promoted
	fmt.Println("leads:", e.IsLeader(), "known leader:", e.LeaderID())
	if err := e.Stop(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("leads:", e.IsLeader(), "state:", e.Status().State)
	// Output:
	// promoted: start the work, and end it with the context
	// leads: true known leader: worker-1
	// demoted: the work has stopped when this returns
	// leads: false state: STOPPED
}

// A program can see who leads without taking part.
func ExampleObserveWithStore() {
	st := memstore.New()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for info, err := range leader.ObserveWithStore(ctx, st, "scheduler") {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case info.ID == "":
			fmt.Println("nobody leads:", info.Reason)
			e, _ := leader.NewElectionWithStore(st, leader.ElectionConfig{
				Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
			})
			_ = e.Start(ctx)
			defer func() { _ = e.Stop() }() //nolint:gocritic // it is reached once
		default:
			fmt.Println(info.ID, "leads in term", info.Term)
			return
		}
	}
	// Output:
	// nobody leads: absent
	// worker-1 leads in term 1
}

// An operation that must not be done by a stale leader is wrapped in Do, which
// proves the term first if the FencingConfig asks for it. ValidateToken is that
// proof alone.
func ExampleElection_Do() {
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Fencing: leader.FencingConfig{ValidateOnCriticalOps: true},
	}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(promoted) })
	charge := func(context.Context) error {
		fmt.Println("charged the card")
		return nil
	}
	fmt.Println("before the start:", errors.Is(e.Do(context.Background(), charge), leader.ErrNotLeader))
	_ = e.Start(context.Background())
	<-promoted
	fmt.Println("validated:", e.ValidateToken(context.Background()))
	fmt.Println("as the leader:", e.Do(context.Background(), charge))
	_ = e.Stop()
	// Output:
	// before the start: true
	// validated: <nil>
	// charged the card
	// as the leader: <nil>
}

// A protected resource remembers the latest term that it accepted, and turns
// earlier ones away, however late their writes arrive.
func ExampleTerm_Supersedes() {
	var accepted leader.Term
	write := func(term leader.Term, what string) {
		if !term.Supersedes(accepted) {
			fmt.Println("refused:", what)
			return
		}
		accepted = term
		fmt.Println("written:", what)
	}
	first, second := leader.Term{Number: 41, Token: "a"}, leader.Term{Number: 57, Token: "b"}
	write(first, "x=1")
	write(first, "x=2")
	write(second, "x=3")
	write(first, "x=4, from a leader that was asleep")
	// Output:
	// written: x=1
	// written: x=2
	// written: x=3
	// refused: x=4, from a leader that was asleep
}

// The short way on NATS: it runs until it is interrupted.
//
//nolint:testableexamples // it needs a server
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	cfg := leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: "scheduler", InstanceID: "worker-1", Logger: slog.Default(),
	}.WithProfile(leader.ProfileLowLatency)
	err = leader.Run(ctx, nc, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
}

// The long way on NATS.
//
//nolint:testableexamples // it needs a server
func ExampleNewElection() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "leaders", Group: "scheduler", InstanceID: "worker-1", TTL: 5 * time.Second, HeartbeatInterval: time.Second,
	})
	if err != nil {
		fmt.Println(err) // every rule that the configuration breaks
		return
	}
	e.OnPromote(func(ctx context.Context, _ string) { <-ctx.Done() })
	e.OnDemote(func() {})
	if err := e.Start(context.Background()); err != nil {
		fmt.Println(err) // what has to be repaired in NATS, and how: a missing bucket, a permission
		return
	}
	defer func() { _ = e.Stop() }()
	fmt.Println(e.IsLeader(), e.LeaderID(), e.Status().State)
}

// Hooks are what metrics, traces and audits hang on. Each transition has its
// name, its reason, and the correlation of its term.
func ExampleHooks() {
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Hooks: leader.Hooks{
			Transition: func(t leader.Transition) { fmt.Println(t.Event, "because:", t.Reason) },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(promoted) })
	_ = e.Start(context.Background())
	<-promoted
	_ = e.Stop()
	// Output:
	// campaigning because: started
	// promoted because: absent
	// demoted because: stopped
	// stopped because: stopped
}

type traceKey struct{}

// OnPromote finds what a hook puts into the context of a term: a span, a
// logger.
func ExampleHooks_termContext() {
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Hooks: leader.Hooks{TermContext: func(ctx context.Context, term leader.Term) context.Context {
			return context.WithValue(ctx, traceKey{}, fmt.Sprint("trace of term ", term.Number))
		}},
	}
	err := leader.RunWithStore(context.Background(), memstore.New(), cfg, func(ctx context.Context, _ leader.Term) error {
		fmt.Println(ctx.Value(traceKey{}))
		return nil
	})
	fmt.Println(err)
	// Output:
	// trace of term 1
	// <nil>
}

// A gauge shows who leads, as other libraries' ReportMetric does: at each
// change, with the candidate's identity. PerElection lets one Hooks value serve
// all elections of a program.
func ExampleHooks_reportMetric() {
	reportMetric := func(candidate string, leads bool) { fmt.Println(candidate, "leads:", leads) }
	hooks := leader.Hooks{PerElection: func(_ leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		return leader.Hooks{Transition: func(t leader.Transition) {
			if leads := t.To == leader.StateLeader; leads || t.From == leader.StateLeader {
				reportMetric(cfg.InstanceID, leads)
			}
		}}
	}}
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second, Hooks: hooks,
	}
	err := leader.RunWithStore(context.Background(), memstore.New(), cfg, func(context.Context, leader.Term) error { return nil })
	fmt.Println(err)
	// Output:
	// worker-1 leads: true
	// worker-1 leads: false
	// <nil>
}
