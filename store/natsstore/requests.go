package natsstore

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Requests wait for their answers, which arrive on one subscription: each on a
// separate subject below the inbox.
//
// They are not safe for concurrent use: their owner guards them.
type requests struct {
	publish func(*nats.Msg) error
	inbox   string
	pending map[string]request
}

type request struct {
	deadline time.Time
	done     func(*nats.Msg)
	late     bool // an answer counts after the deadline, too,
	overdue  bool // which has passed; the deadline is now for a late answer
}

// lateFor is for how long after its deadline an answer may come late.
const lateFor = 10 * time.Second

// newRequests returns requests that are sent by publish, and answered below the
// inbox, a subject without a dot at its end.
func newRequests(inbox string, publish func(*nats.Msg) error) *requests {
	return &requests{publish: publish, inbox: inbox, pending: make(map[string]request)}
}

// subject is where the answers arrive.
func (r *requests) subject() string { return r.inbox + ".*" }

// ask sends a request. Its answer goes to done, or nil after the deadline.
//
// An error means that the request was not sent. It waits for its deadline all
// the same: its repetition must wait like the repetition of any other.
func (r *requests) ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) error {
	return r.send(subject, body, request{deadline: deadline, done: done})
}

// askLate is ask of what is worth an answer that comes too late: done is called
// once more with it. Where a server is slower than the deadline, and what it
// did not answer in time is asked again, nobody would ever have an answer
// otherwise.
func (r *requests) askLate(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) error {
	return r.send(subject, body, request{deadline: deadline, done: done, late: true})
}

func (r *requests) send(subject string, body []byte, q request) error {
	token := rand.Text()
	err := r.publish(&nats.Msg{Subject: subject, Reply: r.inbox + "." + token, Data: body})
	q.late = q.late && err == nil
	r.pending[token] = q
	return err
}

// answer passes a message on to the request that it answers. It drops one that
// answers none: a second answer, or one that comes too late to be of use.
func (r *requests) answer(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, r.inbox+".")
	if q, waits := r.pending[token]; waits {
		delete(r.pending, token)
		q.done(m)
	}
}

// expire ends the requests whose answer is overdue.
func (r *requests) expire(now time.Time) {
	for token, q := range r.pending {
		if !now.After(q.deadline) {
			continue
		}
		if q.late && !q.overdue {
			r.pending[token] = request{deadline: now.Add(lateFor), done: q.done, late: true, overdue: true}
		} else {
			delete(r.pending, token)
		}
		if !q.overdue {
			q.done(nil)
		}
	}
}

// deadlines reports by when the requests are to be answered.
func (r *requests) deadlines(due func(time.Time)) {
	for _, q := range r.pending {
		due(q.deadline)
	}
}

// forget drops all requests without calling them back.
func (r *requests) forget() { clear(r.pending) }
