// Package loop runs everything that a store does by itself on one goroutine,
// and keeps that goroutine alive.
//
// Three things can end a goroutine or leave its work half done: a panic in this
// module, a panic in a caller's function, and runtime.Goexit in a caller's
// function. After each of them the loop goes on.
package loop

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

const (
	// restartMost bounds the wait after a panic, and calmAfter is when panics
	// are no longer in a row.
	restartMost = 5 * time.Second
	calmAfter   = 30 * time.Second
	// bulkSize is how many messages of subjects that bring many at once may
	// wait. The sender waits for room, so that a few do.
	bulkSize = 16
)

// A Handler does the work of a loop. The loop calls its methods one at a time,
// and holds its lock meanwhile.
type Handler interface {
	// Receive handles one message. Full reports whether messages may have been
	// dropped before it because the queue was full.
	Receive(m *nats.Msg, full bool)
	// ConnStatus handles a change of the connection's status.
	ConnStatus(st nats.Status)
	// Work does what is due, and returns the time until more is. It follows
	// each message and each change, and each Nudge.
	Work(now time.Time) time.Duration
	// Panicked notes that the loop's goroutine panicked. Restart follows.
	Panicked(err error)
	// Restart starts all work again, because work under way may be half done.
	Restart()
	// Resume takes up what a goroutine left undone that ended in a caller's
	// function.
	Resume()
}

// A Loop owns a goroutine, a queue of messages and a lock, which guards
// whatever the handler keeps.
type Loop struct {
	handler Handler
	report  func(what string, value any, stack []byte)
	status  <-chan nats.Status
	in      chan *nats.Msg // drops what it cannot take
	bulk    chan *nats.Msg // holds its sender up instead
	wake    chan struct{}
	quit    chan struct{}
	done    chan struct{}
	timer   *time.Timer

	mu      sync.Mutex // guards all that follows
	own     uint64     // number of the loop's goroutine, once it runs
	calling any        // the owner of the caller's function that is running
	called  *sync.Cond // it has returned
	ended   bool

	// Of the loop's goroutine alone:
	restarts  int       // in a row
	restarted time.Time // when the latest was
}

// New returns a loop whose queue takes so many messages. Status brings the
// changes of the connection's status, and report hears of panics. The loop runs
// from Start on.
func New(handler Handler, size int, status <-chan nats.Status, report func(what string, value any, stack []byte)) *Loop {
	l := &Loop{
		handler: handler,
		report:  report,
		status:  status,
		in:      make(chan *nats.Msg, size),
		bulk:    make(chan *nats.Msg, bulkSize),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		timer:   time.NewTimer(time.Hour),
	}
	l.called = sync.NewCond(&l.mu)
	return l
}

// Start begins the loop's goroutine.
func (l *Loop) Start() { go l.run() }

// Lock takes the loop's lock. Functions of callers run without it.
func (l *Loop) Lock() { l.mu.Lock() }

// Unlock returns the loop's lock.
func (l *Loop) Unlock() { l.mu.Unlock() }

// Queue is the channel for subscriptions that bring few messages at once.
// Messages that arrive while it is full are dropped.
func (l *Loop) Queue() chan *nats.Msg { return l.in }

// Push queues a message of a subscription that may bring many at once. It waits
// for room, or until the loop ends.
func (l *Loop) Push(m *nats.Msg) {
	select { // which cannot panic: bulk is never closed
	case l.bulk <- m:
	case <-l.quit:
	}
}

// Waiting reports whether messages wait to be received.
func (l *Loop) Waiting() bool { return len(l.in)+len(l.bulk) > 0 }

// Nudge has the loop look for work.
func (l *Loop) Nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// End ends the loop. The caller holds its lock; the goroutine follows when it
// can. It reports whether the loop was still going on.
func (l *Loop) End() (first bool) {
	if l.ended {
		return false
	}
	l.ended = true
	close(l.quit)
	return true
}

// Ended reports whether the loop has ended. The caller holds the lock.
func (l *Loop) Ended() bool { return l.ended }

// Quit is closed when the loop ends, and Done when its goroutine is gone.
func (l *Loop) Quit() <-chan struct{} { return l.quit }

// Done is closed when the loop's goroutine is gone.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Inside reports whether the caller is a function that the loop calls. The
// caller holds the lock.
func (l *Loop) Inside() bool { return l.calling != nil && goid.Current() == l.own }

// Call runs a caller's function without the lock, which it takes again
// afterwards. Settle waits for it by its owner. A panic of the function is
// reported, and ends neither the program nor the loop.
func (l *Loop) Call(owner any, f func()) {
	l.calling = owner
	l.mu.Unlock()
	defer func() { // deferred, for runtime.Goexit
		l.mu.Lock()
		l.calling = nil
		l.called.Broadcast()
	}()
	shield.Call(f, func(value any, stack []byte) { l.report("a function that a watch calls", value, stack) })
}

// Settle waits until no function of the owner's is running, unless it is the
// caller itself. The caller holds the lock.
func (l *Loop) Settle(owner any) {
	for l.calling == owner && !l.Inside() {
		l.called.Wait()
	}
}

func (l *Loop) run() {
	ended := false
	defer func() {
		if ended {
			close(l.done)
			return
		}
		go func() { // runtime.Goexit in a caller's function took this goroutine along
			shield.Call(l.resume, l.panicked)
			l.run()
		}()
	}()
	l.begin()
	for !l.over() {
		if !shield.Call(l.turn, l.panicked) {
			l.restart()
		}
	}
	ended = true
}

func (l *Loop) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = goid.Current()
}

func (l *Loop) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// turn waits for something to happen, and does what is due then.
func (l *Loop) turn() {
	event := l.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		event()
	}
	if !l.ended {
		faults.Point("hub")
		l.timer.Reset(l.handler.Work(time.Now()))
	}
}

// next waits for an event, and returns what to do about it in addition to work.
func (l *Loop) next() func() {
	select {
	case m := <-l.in:
		return func() { l.receive(m) }
	case m := <-l.bulk:
		return func() { l.receive(m) }
	case st := <-l.status:
		return func() { l.handler.ConnStatus(st) }
	case <-l.quit:
	case <-l.wake:
	case <-l.timer.C:
	}
	return func() {}
}

// receive handles a message and what else is waiting, so that a burst is
// followed by one round of work instead of one for each message.
func (l *Loop) receive(m *nats.Msg) {
	l.handler.Receive(m, l.full())
	for range cap(l.in) {
		if l.ended {
			return
		}
		select {
		case m = <-l.in:
		case m = <-l.bulk:
		default:
			return
		}
		l.handler.Receive(m, l.full())
	}
}

// full reports whether messages may have been dropped for want of room.
func (l *Loop) full() bool { return len(l.in) >= cap(l.in)-1 }

func (l *Loop) panicked(value any, stack []byte) {
	l.report("the goroutine of the watches", value, stack)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handler.Panicked(fmt.Errorf("%w: %v", errPanicked, shield.Value(value)))
}

var errPanicked = errors.New("the goroutine of the watches panicked")

func (l *Loop) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.handler.Resume()
	}
	l.Nudge()
}

// restart restarts the handler after a panic, after a wait that grows from one
// panic to the next.
func (l *Loop) restart() {
	now := time.Now()
	if now.Sub(l.restarted) > calmAfter {
		l.restarts = 0
	}
	l.restarted = now
	wait := time.NewTimer(backoff.Policy{Initial: 25 * time.Millisecond, Max: restartMost}.Steady(l.restarts + 1))
	defer wait.Stop()
	l.restarts++
	select {
	case <-wait.C:
	case <-l.quit:
		return
	}
	if !shield.Call(l.anew, l.panicked) {
		l.Nudge() // and once more with the next turn
	}
}

func (l *Loop) anew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.handler.Restart()
		l.Nudge()
	}
}
