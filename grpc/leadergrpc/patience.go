package leadergrpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// A passage is the way of one call to a server, which an attempt may wait for
// no longer than it pays, while what the server does takes as long as its
// caller allows. gRPC has no such bound: a call that waits for a connection
// does so for as long as its context lasts.
type passage struct {
	stage  atomic.Int32
	cancel context.CancelFunc // of the call
}

// The stages of a passage.
const (
	unwatched int32 = iota // no handler of events reports when it is sent
	waiting                // for a connection
	sent                   // or being sent
	overdue                // its time was up before it began to wait
	givenUp
)

// end gives the call up where it waits, or as soon as it does: interceptors may
// hold it up before.
func (p *passage) end() {
	for {
		switch {
		case p.stage.CompareAndSwap(waiting, givenUp):
			p.cancel()
			return
		case p.stage.CompareAndSwap(unwatched, overdue), p.stage.Load() != waiting:
			return
		}
	}
}

// begin notes that the call waits.
func (p *passage) begin() {
	if !p.stage.CompareAndSwap(unwatched, waiting) && p.stage.CompareAndSwap(overdue, givenUp) {
		p.cancel()
	}
}

type passageKey struct{}

// inTime lets a call be sent only before until, as far as a [watcher] reports
// it. If it is not, the error is Unavailable and names the earlier failure. The
// error does not count as a refusal: whether the call was sent just then is not
// known.
func inTime(ctx context.Context, until time.Time, before error, invoke func(context.Context) error) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &passage{cancel: cancel}
	bounded = context.WithValue(bounded, passageKey{}, p)
	defer time.AfterFunc(time.Until(until), p.end).Stop()
	err := invoke(bounded)
	if p.stage.Load() == givenUp && status.Code(err) == codes.Canceled && ctx.Err() == nil {
		return status.Errorf(codes.Unavailable, "leadergrpc: no connection to a leader in time; before: %v", status.Convert(before).Message())
	}
	return err
}

// waits reports whether the options of a call have it wait for a connection.
func waits(opts []grpc.CallOption) (waits bool) {
	for _, opt := range opts {
		if o, ok := opt.(grpc.FailFastCallOption); ok {
			waits = !o.FailFast
		}
	}
	return waits
}

// A watcher receives from gRPC when a call is sent.
type watcher struct{}

// TagRPC implements stats.Handler. It is called when a call begins, and for
// each attempt of gRPC's own.
func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if p, ok := ctx.Value(passageKey{}).(*passage); ok {
		p.begin()
	}
	return ctx
}

// HandleRPC implements stats.Handler.
func (watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	if p, ok := ctx.Value(passageKey{}).(*passage); ok {
		p.stage.CompareAndSwap(waiting, sent)
	}
}

// TagConn implements stats.Handler.
func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (watcher) HandleConn(context.Context, stats.ConnStats) {}
