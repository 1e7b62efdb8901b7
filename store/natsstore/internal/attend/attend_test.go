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

	seen  Report
	looks int
	again func() // of calls
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
	ctx, call := b.Begin(parent, Report{Connected: true}, subject, b.again)
	defer b.End(call)
	<-ctx.Done()
	return time.Since(began), Interrupted(ctx, ctx.Err())
}

// violation is what a connection reports of an act that was denied.
func violation(act, subject string) error {
	return fmt.Errorf("%w: Permissions Violation for %s to %q", nats.ErrPermissionViolation, act, subject)
}

func TestACallThatWaitsInVainIsEnded(t *testing.T) {
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

// What is denied to others on the connection, or was reported before, ends no
// call: it waits for its deadline, and its connection is looked at ever more
// rarely.
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
// another's, of a moment later, waited for its deadline.
func TestADenialThatAnothersHidesIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBystander()
		var reported atomic.Pointer[error]
		report := func(subject string) {
			err := violation("Publish", subject)
			reported.Store(&err)
		}
		b.look = func() Report { return Report{Connected: true, Err: *reported.Load()} }
		var asked atomic.Int32
		b.again = func() {
			if asked.Add(1) == 2 { // the first is hidden once more
				report("a.b")
			} else {
				report("other")
			}
		}
		report("other")
		if got, err := b.waited(t.Context(), "a.b"); !errors.Is(err, ErrDenied) || !errors.Is(err, *reported.Load()) || got > time.Second {
			t.Errorf("ended after %v: %v", got, err)
		}
		if n := asked.Swap(0); n != 2 {
			t.Errorf("asked again %d times", n)
		}
		report("other") // and then once for each report
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		b.again = func() { asked.Add(1) }
		if _, err := b.waited(ctx, "a.b"); !errors.Is(err, context.DeadlineExceeded) || asked.Load() != 1 {
			t.Errorf("asked again %d times: %v", asked.Load(), err)
		}
	})
}

// All calls that a user may not make are denied at once, and the connection
// shows the last denial. Each was asked for again with each look, which showed
// the last one of them: of many calls most waited for their deadline.
func TestManyDenialsAtOnceAreFoundOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 64
		b := newBystander()
		var reported atomic.Pointer[error]
		report := func(subject string) {
			err := violation("Publish", subject)
			reported.Store(&err)
		}
		b.look = func() Report { return Report{Connected: true, Err: *reported.Load()} }
		report(fmt.Sprintf("a.%d", many-1))
		var asked, denied atomic.Int32
		var longest atomic.Int64
		var calls sync.WaitGroup
		for i := range many {
			subject := fmt.Sprintf("a.%d", i)
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				waits, call := b.Begin(ctx, Report{Connected: true}, subject, func() {
					asked.Add(1)
					report(subject)
				})
				defer b.End(call)
				<-waits.Done()
				if errors.Is(Interrupted(waits, waits.Err()), ErrDenied) {
					denied.Add(1)
				}
				for took := int64(time.Since(began)); ; {
					if before := longest.Load(); took <= before || longest.CompareAndSwap(before, took) {
						return
					}
				}
			})
		}
		calls.Wait()
		if n := asked.Load(); denied.Load() != many || n >= many || longest.Load() > int64(2*many*FirstLook) {
			t.Errorf("%d of %d were found denied within %v, asked again %d times", denied.Load(), many, time.Duration(longest.Load()), n)
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
