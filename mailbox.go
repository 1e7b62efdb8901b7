package leader

import (
	"sync"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A letter is one thing that happened, on its way to the goroutine that owns the state.
type letter struct {
	ev    machine.Event
	call  *Call        // the call to the store that ev is the answer to
	entry *store.Entry // the sight of the record that ev is about
	rules *conditions  // the rules from now on
	wait  *waiter      // somebody who waits for something from now on
	note  *Note        // something to report
	bid   *error       // how a bid ended

	nominee *record.Nomination // who goes first when a lease has run out

	mended *mended // how the attempt to mend the control record ended

	watched bool // the watch stands

	closed error // the store is closed for good
}

// A mailbox takes in what happens, from any goroutine. Nobody blocks on it. It is
// bounded by what is under way: of each register only the latest sight is
// kept, as a store may skip states anyway, so that a flood of foreign writes costs no memory.
type mailbox struct {
	mu      sync.Mutex
	letters []letter
	record  *store.Entry
	control *store.Entry
	offer   *machine.Event
	nominee *record.Nomination
	wake    chan struct{}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(l letter) { m.with(func() { m.letters = append(m.letters, l) }) }

func (m *mailbox) event(ev machine.Event) { m.put(letter{ev: ev}) }

// sight takes in what the watch delivered, of the record or of the control register.
func (m *mailbox) sight(e store.Entry, control bool) {
	m.with(func() {
		if control {
			m.control = &e
		} else {
			m.record = &e
		}
	})
}

// offered takes in an offer. One that is none is no news.
func (m *mailbox) offered(b []byte) {
	if seen, ok := record.ReadOffer(b); ok {
		m.with(func() { m.offer = &machine.Event{Kind: machine.Offered, Seen: seen} })
	}
}

// heard takes in a nomination. Of those that wait the one that counts is kept.
func (m *mailbox) heard(b []byte) {
	n, ok := record.ReadNomination(b)
	if !ok {
		return // an offer, perhaps
	}
	m.with(func() {
		if m.nominee == nil || n.Replaces(*m.nominee) {
			m.nominee = &n
		}
	})
}

func (m *mailbox) with(f func()) {
	m.change(f)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// take empties the mailbox.
func (m *mailbox) take() (letters []letter, sight, control *store.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters, sight, control = m.letters, m.record, m.control
	if m.offer != nil {
		letters = append(letters, letter{ev: *m.offer})
	}
	if m.nominee != nil {
		letters = append(letters, letter{nominee: m.nominee})
	}
	m.letters, m.record, m.control, m.offer, m.nominee = nil, nil, nil, nil, nil
	return letters, sight, control
}
