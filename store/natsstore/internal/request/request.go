// Package request keeps the requests of one owner that wait for their answers.
package request

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Requests wait for their answers, which arrive on one subscription: each on a
// subject of its own below the inbox.
//
// They are not safe for concurrent use: their owner guards them.
type Requests struct {
	publish func(*nats.Msg) error
	inbox   string
	pending map[string]request
}

type request struct {
	deadline time.Time
	done     func(*nats.Msg)
}

// New returns requests that are sent by publish, and answered below the inbox,
// a subject without a dot at its end.
func New(inbox string, publish func(*nats.Msg) error) *Requests {
	return &Requests{publish: publish, inbox: inbox, pending: make(map[string]request)}
}

// Subject is where the answers arrive.
func (r *Requests) Subject() string { return r.inbox + ".*" }

// Ask sends a request. Its answer goes to done, or nil after the deadline.
//
// An error says that the request was not sent. It waits for its deadline all the
// same: its repetition must wait like that of any other.
func (r *Requests) Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) error {
	token := rand.Text()
	err := r.publish(&nats.Msg{Subject: subject, Reply: r.inbox + "." + token, Data: body})
	r.pending[token] = request{deadline: deadline, done: done}
	return err
}

// Answer passes a message on to the request that it answers. It drops one that
// answers none: a second answer, or one that comes too late.
func (r *Requests) Answer(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, r.inbox+".")
	if q, waits := r.pending[token]; waits {
		delete(r.pending, token)
		q.done(m)
	}
}

// Expire ends the requests whose answer is overdue.
func (r *Requests) Expire(now time.Time) {
	for token, q := range r.pending {
		if now.After(q.deadline) {
			delete(r.pending, token)
			q.done(nil)
		}
	}
}

// Deadlines reports by when the requests are to be answered.
func (r *Requests) Deadlines(due func(time.Time)) {
	for _, q := range r.pending {
		due(q.deadline)
	}
}

// Forget drops all requests. None of them hears of it.
func (r *Requests) Forget() { clear(r.pending) }
