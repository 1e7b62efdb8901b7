package leader

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// Run campaigns on NATS and calls lead for each term that it wins, until ctx is
// done. It is the short way to an Election:
//
//   - lead's context ends with the term; lead should then return soon. Once it
//     has, Run campaigns again, whatever it returned.
//   - If lead returns while its term lasts, the work is done: Run releases the
//     leadership and returns what lead returned.
//   - When ctx is done, lead's context is cancelled, lead returns, the record
//     is released, and Run returns nil, or ErrDemoteTimeout if lead did not
//     return in time.
//   - A panic of lead is reported through the Logger and ends the term, not the
//     program.
//   - A panic of this library stops the work, and Run returns an error that
//     matches ErrPanicked.
//   - When the connection is permanently closed the work stops, and Run returns
//     an error that matches ErrConnectionClosed. Connect with
//     nats.MaxReconnects(-1), since nats.go gives up after two minutes
//     otherwise.
//
// Run returns an error at once if the configuration or the bucket does not
// allow an election. It waits for a server that cannot be reached, and logs
// that.
func Run(ctx context.Context, nc *nats.Conn, cfg ElectionConfig, lead func(ctx context.Context, term Term) error) error {
	if err := given(lead); err != nil {
		return err
	}
	e, err := electionOn(nc, cfg)
	if err != nil {
		return err
	}
	return run(ctx, e, lead)
}

// RunWithStore is Run on a store other than NATS.
func RunWithStore(ctx context.Context, st store.Store, cfg ElectionConfig, lead func(ctx context.Context, term Term) error) error {
	if err := given(lead); err != nil {
		return err
	}
	e, err := electionWithStore(st, cfg)
	if err != nil {
		return err
	}
	return run(ctx, e, lead)
}

// given refuses a nil function, with which every term would begin with a panic.
func given(lead func(context.Context, Term) error) error {
	v := &validator{}
	v.check(lead != nil, "lead", nil, "must not be nil")
	return v.err()
}

func run(ctx context.Context, e election, lead func(context.Context, Term) error) error {
	finished := make(chan error, 1)
	e.OnTerm(func(ctx context.Context, term Term) {
		err := lead(ctx, term)
		if ctx.Err() == nil {
			e.c.Returned(err)
			finished <- err
			// The term stays ours until Run has stopped the election.
			<-ctx.Done()
		}
	})
	if err := e.c.StartApart(ctx); err != nil {
		return err
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-finished:
	case <-e.Done(): // by itself; Stop returns why
	}
	stopErr := e.StopWithContext(context.Background(), StopOptions{DeleteKey: true, WaitForDemote: true})
	if err == nil {
		select {
		case err = <-finished: // beside the end of ctx, while the term lasted
		default:
		}
	}
	if err == nil {
		err = stopErr
	}
	return err
}
