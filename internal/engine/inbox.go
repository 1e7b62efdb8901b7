package engine

import (
	"sync"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A message is one thing that happened, on its way to the loop. Exactly one of
// its parts is set, but for call and entry, which come with an event. It
// travels by pointer: an event has half a kilobyte, and as a value it would
// make the stack of the loop grow with each renewal.
type message struct {
	event machine.Event
	call  *Call        // the call to the store that event answers
	entry *store.Entry // the state of the record that event is about

	conditions *Conditions // of the store, from now on
	wait       *waiter     // somebody who waits for a state from now on
	note       *Note       // something to report
	requested  *error      // how a takeover request ended
	watched    bool        // the watch runs
	closed     error       // the store is permanently closed
}

// A waiter waits for a state of the core. Its answer has room for one, so that
// the loop never waits for somebody who has given up.
type waiter struct {
	done   func(*machine.State) (bool, error)
	kind   string // of the call to the store that it takes, if any
	answer chan error
}

// An inbox takes in what happens, from any goroutine, and blocks nobody. Of
// each of the two records it keeps the latest state alone: a store may skip
// states anyway, and so a flood of foreign writes costs no memory.
//
// It must not block, because a store requires its functions not to block. And a
// hook, which runs on the loop's goroutine, may put in a resignation, for
// example, which that goroutine alone takes out.
type inbox struct {
	mu       sync.Mutex
	messages []*message
	spare    []*message // empty, the loop's: becomes messages when those are taken
	record   *store.Entry
	control  *store.Entry
	wake     chan struct{} // holds one if something waits
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (in *inbox) put(m *message) { in.with(func() { in.messages = append(in.messages, m) }) }

func (in *inbox) event(ev machine.Event) { in.put(&message{event: ev}) }

// observed takes in the state of a record: of the group's, or of its control
// record.
func (in *inbox) observed(e store.Entry, control bool) {
	in.with(func() {
		if control {
			in.control = &e
		} else {
			in.record = &e
		}
	})
}

// with changes the inbox and wakes the loop. A single signal covers any number
// of changes, since the loop takes all that there is.
func (in *inbox) with(f func()) {
	in.change(f)
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) change(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f()
}

// take empties the inbox. The entries have no place in the order of the
// messages; the loop decides which of them comes first.
func (in *inbox) take() (messages []*message, group, control *store.Entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	messages, group, control = in.messages, in.record, in.control
	in.messages, in.record, in.control = in.spare, nil, nil
	in.spare = nil
	return messages, group, control
}

// kept is how many messages an inbox has room for while it is empty.
const kept = 2

// done takes back what take returned, which the loop is done with. Only the
// loop calls the two. The slice is kept, so that a renewal allocates none.
func (in *inbox) done(messages []*message) {
	if cap(messages) <= kept { // and not after a burst
		clear(messages)
		in.spare = messages[:0]
	}
}
