package leadergrpc

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The time from a refusal to the next attempt, if nothing is heard meanwhile.
const (
	firstDelay   = 2 * time.Millisecond
	longestDelay = 100 * time.Millisecond
)

// UnaryClient sends unary calls again that were refused for want of leadership
// of the group ([RefusalOf]) or are repeatable (BuilderOptions), to the leader
// that the observer reports, or that the refusal names if its term is later. A
// named leader counts until the observer reports one, or until it cannot be
// reached or a call gives up on it. From its first failure on such a call waits
// for a leader and a connection to it, for as long as RetryFor allows, and if
// it sets WaitForReady, for as long as its context does. It is part of
// [Builder.DialOptions]; by itself, it waits for the connection as long as the
// context allows, too.
//
// A refusal proves that no handler ran, so this is safe for every method; other
// errors are returned as they are. The first attempt after a refusal is sent
// when another leader is known, immediately if it is known already. If a server
// does not yet know of its own success, or a client does not yet know of the
// new leader, the call is delayed by 2 ms, then twice as long each time up to
// 100 ms.
func (b *Builder) UnaryClient() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		group, ok := strings.CutPrefix(cc.CanonicalTarget(), Scheme+":///")
		if !ok || b.opts.RetryFor < 0 {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		until, delay := time.Now().Add(b.opts.RetryFor), firstDelay
		send := func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) }
		patient := waits(opts)
		for failed := error(nil); ; {
			f := b.follower(group)
			before, _ := f.present()
			var err error
			if failed == nil || patient {
				err = send(ctx)
			} else {
				err = inTime(ctx, until, failed, send)
			}
			r, refused := RefusalOf(err)
			refused = refused && r.Group == group // a refusal of another group is one that the handler got
			if !refused && !b.repeats(method, err) || !b.await(ctx, group, before, r, delay, until) {
				if refused || failed != nil && status.Code(err) == codes.Unavailable {
					f.expire(before)
				}
				return err
			}
			failed = err
			delay = min(2*delay, longestDelay)
			opts = append(slices.Clip(opts), grpc.WaitForReady(true)) // it may be gone again
		}
	}
}

// repeats reports whether a call may be sent again although it may have been
// served.
func (b *Builder) repeats(method string, err error) bool {
	return b.opts.Repeatable != nil && status.Code(err) == codes.Unavailable && b.opts.Repeatable(method)
}

// await waits for a reason to send a call again that failed when the place was
// known that it was sent to. It reports whether there is one before ctx or
// the time is up.
func (b *Builder) await(ctx context.Context, group string, sent place, r Refusal, delay time.Duration, until time.Time) bool {
	f := b.follower(group)
	if f == nil {
		return false
	}
	f.hint(r)
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	again := time.NewTimer(delay)
	defer again.Stop()
	waited := false
	for time.Now().Before(until) {
		now, changed := f.present()
		if now.address != "" && (waited || now.term > sent.term) {
			return true
		}
		select {
		case <-changed:
		case <-again.C:
			waited = true
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return false
}
