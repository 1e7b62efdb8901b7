package loop

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// A bench is a handler that records what it receives.
type bench struct {
	*Loop

	receive  func(m *nats.Msg)
	work     func() time.Duration
	events   []string // guarded by the loop's lock
	reported []string
	mu       sync.Mutex
}

func start(t *testing.T, size int, status <-chan nats.Status) *bench {
	t.Helper()
	b := &bench{receive: func(*nats.Msg) {}, work: func() time.Duration { return time.Hour }}
	b.Loop = New(b, size, status, func(what string, _ any, _ []byte) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reported = append(b.reported, what)
	})
	b.Start()
	t.Cleanup(func() {
		b.end()
		<-b.Done()
	})
	return b
}

func (b *bench) end() {
	b.Lock()
	defer b.Unlock()
	b.End()
}

func (b *bench) note(event string) { b.events = append(b.events, event) }

// noted returns what happened since it was last called.
func (b *bench) noted() []string {
	b.Lock()
	defer b.Unlock()
	events := b.events
	b.events = nil
	return events
}

func (b *bench) Receive(m *nats.Msg, full bool) {
	if full {
		b.note("full")
	}
	b.note("message " + string(m.Data))
	b.receive(m)
}

func (b *bench) ConnStatus(st nats.Status)    { b.note(st.String()) }
func (b *bench) Work(time.Time) time.Duration { b.note("work"); return b.work() }
func (b *bench) Panicked(error)               { b.note("panicked") }
func (b *bench) Restart()                     { b.note("restart") }
func (b *bench) Resume()                      { b.note("resume") }

// hold keeps the loop in a caller's function until release is called.
func (b *bench) hold() (release func()) {
	held, released := make(chan struct{}), make(chan struct{})
	b.receive = func(*nats.Msg) {
		b.receive = func(*nats.Msg) {}
		b.Call(b, func() {
			close(held)
			<-released
		})
	}
	b.Queue() <- message("hold")
	<-held
	b.noted()
	return func() { close(released) }
}

func message(text string) *nats.Msg { return &nats.Msg{Data: []byte(text)} }

func want(t *testing.T, b *bench, events ...string) {
	t.Helper()
	synctest.Wait()
	if got := b.noted(); !slices.Equal(got, events) {
		t.Errorf("happened: %q, want %q", got, events)
	}
}

func TestABurstIsFollowedByOneRoundOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := make(chan nats.Status, 1)
		b := start(t, 8, status)
		release := b.hold()
		b.Queue() <- message("a")
		b.Queue() <- message("b")
		b.Push(message("c"))
		release()
		synctest.Wait()
		got := b.noted()
		slices.Sort(got[:len(got)-1]) // of two queues none goes first
		if !slices.Equal(got, []string{"message a", "message b", "message c", "work"}) {
			t.Errorf("happened: %q", got)
		}
		b.Nudge()
		want(t, b, "work")
		status <- nats.RECONNECTING
		want(t, b, "RECONNECTING", "work")
	})
}

func TestAFullQueueIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 2, nil)
		release := b.hold()
		for _, text := range []string{"a", "b"} {
			b.Queue() <- message(text)
		}
		if !b.Waiting() {
			t.Error("nothing waits")
		}
		release()
		want(t, b, "full", "message a", "message b", "work")
	})
}

func TestWorkIsRepeatedWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 2, nil)
		b.work = func() time.Duration { return time.Minute }
		b.Nudge()
		want(t, b, "work")
		time.Sleep(time.Minute - time.Nanosecond)
		want(t, b)
		time.Sleep(time.Nanosecond)
		want(t, b, "work")
	})
}

// A panic leaves no watch without messages: the loop restarts after a wait that
// grows from one panic to the next and is short again after a calm time.
func TestLoopRestartsAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 8, nil)
		b.receive = func(m *nats.Msg) {
			if string(m.Data) == "boom" {
				panic("boom")
			}
		}
		took := func() time.Duration {
			began := time.Now()
			b.Queue() <- message("boom")
			synctest.Wait()
			b.Queue() <- message("x")
			for !slices.Contains(b.noted(), "message x") {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			return time.Since(began)
		}
		first := took()
		before := first
		for range 20 {
			next := took()
			if next < before || next > restartMost+time.Second {
				t.Fatalf("a wait of %v after one of %v", next, before)
			}
			before = next
		}
		if before < 10*first {
			t.Errorf("the waits grew from %v to %v", first, before)
		}
		time.Sleep(2 * calmAfter)
		if got := took(); got != first {
			t.Errorf("a wait of %v after a calm time, want %v", got, first)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.reported) != 22 {
			t.Errorf("%d of 22 panics were reported", len(b.reported))
		}
	})
}

// However a caller's function ends, the loop goes on, and the goroutines that
// wait for that function are released.
func TestACallersFunctionEndsNeitherTheLoopNorTheWait(t *testing.T) {
	for name, f := range map[string]func(){"returns": func() {}, "panics": func() { panic("boom") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, 8, nil)
				running, finish := make(chan struct{}), make(chan struct{})
				b.receive = func(m *nats.Msg) {
					if string(m.Data) != "call" {
						return
					}
					b.Call("owner", func() {
						close(running)
						<-finish
						f()
					})
				}
				b.Queue() <- message("call")
				<-running
				settled := make(chan struct{})
				go func() {
					b.Lock()
					defer b.Unlock()
					b.Settle("another") // does not wait
					b.Settle("owner")
					close(settled)
				}()
				synctest.Wait()
				select {
				case <-settled:
					t.Error("nobody waits for the function")
				default:
				}
				close(finish)
				<-settled
				b.noted()
				b.Queue() <- message("next")
				synctest.Wait()
				if !slices.Contains(b.noted(), "message next") {
					t.Error("the loop has ended")
				}
			})
		})
	}
}

// A function that stops its own watch must not wait for itself.
func TestAFunctionDoesNotWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 8, nil)
		inside := false
		b.receive = func(*nats.Msg) {
			b.Call("owner", func() {
				b.Lock()
				defer b.Unlock()
				b.Settle("owner")
				inside = b.Inside()
			})
		}
		b.Queue() <- message("call")
		synctest.Wait()
		b.Lock()
		defer b.Unlock()
		if !inside || b.Inside() {
			t.Error("the loop does not know who calls")
		}
	})
}

func TestTheEndLetsEverybodyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 8, nil)
		b.receive = func(*nats.Msg) { b.End() }
		b.Lock()
		for range 3 {
			b.Queue() <- message("x")
		}
		pushed := make(chan struct{})
		go func() {
			for range bulkSize + 10 {
				b.Push(message("y"))
			}
			close(pushed)
		}()
		b.Unlock()
		<-b.Done()
		<-pushed
		if got := b.noted(); len(got) != 1 {
			t.Errorf("after the end: %q", got[1:])
		}
		b.Lock()
		defer b.Unlock()
		if b.End() || !b.Ended() {
			t.Error("it ends twice, or not at all")
		}
		select {
		case <-b.Quit():
		default:
			t.Error("who waits for the end does not hear of it")
		}
	})
}
