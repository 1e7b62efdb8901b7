package attend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// A bystander is a connection that calls are attended on.
type bystander struct {
	Attendant

	seen    Report
	looks   int
	refused func(context.Context) error // of calls
}

func newBystander() *bystander {
	b := &bystander{seen: Report{Connected: true}}
	b.look = func() Report {
		b.looks++
		return b.seen
	}
	b.inbox = "_INBOX."
	b.guard = func(f func()) func() { return f }
	return b
}

// waited is how long a call waits for nothing, and why it ends.
func (b *bystander) waited(parent context.Context, subject string) (time.Duration, error) {
	began := time.Now()
	ctx, call := b.Begin(parent, Report{Connected: true}, subject, b.refused)
	defer b.End(call)
	<-ctx.Done()
	return time.Since(began), Interrupted(ctx, ctx.Err())
}

// violation is what a connection reports of an act that was denied.
func violation(act, subject string) error {
	return fmt.Errorf("%w: Permissions Violation for %s to %q", nats.ErrPermissionViolation, act, subject)
}

func TestCallWithoutAnAnswerIsEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		seen Report
		want error
	}{
		{"the connection is down", Report{}, ErrInterrupted},
		{"it was down", Report{Connected: true, Reconnects: 1}, ErrInterrupted},
		{"the subject is denied", Report{Connected: true, Err: violation("Publish", "a.b")}, ErrDenied},
		{"the answer is denied", Report{Connected: true, Err: violation("Subscription", "_INBOX.x.*")}, ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBystander()
				b.seen = c.seen
				if got, err := b.waited(t.Context(), "a.b"); !errors.Is(err, c.want) || got != FirstLook {
					t.Errorf("ended after %v: %v", got, err)
				}
			})
		})
	}
}

// A denial for another call on the connection, or one reported before the call,
// does not end the call: it waits for its deadline, and its connection is
// checked less and less often.
func TestACallThatMayYetBeAnsweredWaits(t *testing.T) {
	for what, reported := range map[string]error{
		"another subject":               violation("Publish", "other"),
		"a subscription to the subject": violation("Subscription", "a.b"),
		"an answer of ours to another":  violation("Publish", "_INBOX.x.1"),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBystander()
				b.seen.Err = reported
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if got, err := b.waited(ctx, "a.b"); !errors.Is(err, context.DeadlineExceeded) || got != 10*time.Second {
					t.Errorf("ended after %v: %v", got, err)
				}
				if b.looks == 0 || b.looks > 40 {
					t.Errorf("%d looks in ten seconds, at most 40", b.looks)
				}
			})
		})
	}
}

// The connection shows the latest denial alone. A call whose own was hidden by
// another's, of a moment later, waited for its deadline; and of many that were
// denied at once most did, or each look asked for all of them again.
func TestADenialThatAnothersHidesIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 64
		b := newBystander()
		b.seen.Err = violation("Publish", "other")
		var asked, denied atomic.Int32
		var calls sync.WaitGroup
		for i := range many {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began, own := time.Now(), violation("Publish", fmt.Sprintf("a.%d", i))
				waits, call := b.Begin(ctx, Report{Connected: true}, fmt.Sprintf("a.%d", i), func(context.Context) error {
					asked.Add(1)
					return own
				})
				defer b.End(call)
				<-waits.Done()
				if err := Interrupted(waits, waits.Err()); errors.Is(err, ErrDenied) && errors.Is(err, own) && time.Since(began) == FirstLook {
					denied.Add(1)
				}
			})
		}
		calls.Wait()
		if denied.Load() != many || asked.Load() != many {
			t.Errorf("%d of %d were found denied, asked for %d times", denied.Load(), many, asked.Load())
		}
	})
}

// A call whose right the user has waits on, and its right is asked for once,
// whatever else is denied meanwhile.
func TestTheRightOfACallIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBystander()
		b.look = func() Report { return Report{Connected: true, Err: violation("Publish", "other")} }
		var asked atomic.Int32
		b.refused = func(context.Context) error { asked.Add(1); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := b.waited(ctx, "a.b"); !errors.Is(err, context.DeadlineExceeded) || asked.Load() != 1 {
			t.Errorf("asked for %d times: %v", asked.Load(), err)
		}
	})
}

// A call is attended to in time however long others have waited, and one that
// has its answer costs no look.
func TestCallsShareATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBystander()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		for range 3 {
			go func() {
				_, _ = b.waited(ctx, "a.b")
				ended <- struct{}{}
			}()
		}
		time.Sleep(time.Minute) // by now they are looked at rarely
		synctest.Wait()
		b.mu.Lock()
		before := b.looks
		b.mu.Unlock()
		for range 1000 {
			_, call := b.Begin(t.Context(), Report{Connected: true}, "a.b", nil)
			b.End(call)
		}
		if b.looks != before {
			t.Errorf("%d looks for calls that have their answer", b.looks-before)
		}
		b.mu.Lock()
		b.seen.Connected = false
		b.mu.Unlock()
		if got, err := b.waited(t.Context(), "a.b"); !errors.Is(err, ErrInterrupted) || got > FirstLook {
			t.Errorf("ended after %v: %v", got, err)
		}
		cancel()
		for range 3 {
			<-ended
		}
		if len(b.calls) != 0 {
			t.Errorf("%d calls are left", len(b.calls))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.next.IsZero() {
			t.Error("the timer is set although nobody waits")
		}
	})
}
