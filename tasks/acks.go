package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ackFor is how long a server has to acknowledge a write. It may be short: a
// write whose outcome is not known is followed by a read.
const ackFor = 2 * time.Second

// acks are the writes that were sent and not answered. They take no goroutine
// each, and one subscription together.
type acks struct {
	nc     *nats.Conn
	prefix string
	sub    *nats.Subscription

	mu      sync.Mutex
	closed  bool
	next    uint64
	oldest  uint64 // all before it are answered
	waiting map[uint64]ack
	timer   *time.Timer // runs while anything waits
}

type ack struct {
	sent time.Time
	done func(uint64, error)
}

func newAcks(nc *nats.Conn) (*acks, error) {
	a := &acks{nc: nc, prefix: nc.NewInbox() + ".", waiting: map[uint64]ack{}}
	sub, err := nc.Subscribe(a.prefix+"*", a.answer)
	if err != nil {
		return nil, fmt.Errorf("tasks: subscribing to answers: %w", err)
	}
	a.sub = sub
	return a, nil
}

var errNoAck = errors.New("tasks: no acknowledgement in time")

// publish sends a message to a stream, and keeps nothing of it.
func (a *acks) publish(m *nats.Msg, done func(uint64, error)) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		done(0, nats.ErrConnectionClosed)
		return
	}
	id := a.next
	a.next++
	a.waiting[id] = ack{time.Now(), done}
	if a.timer == nil {
		a.timer = time.AfterFunc(ackFor, a.expire)
	}
	a.mu.Unlock()
	m.Reply = a.prefix + strconv.FormatUint(id, 10)
	if err := a.nc.PublishMsg(m); err != nil {
		a.end(id, 0, err)
	}
}

// end answers a write, once.
func (a *acks) end(id, rev uint64, err error) {
	a.mu.Lock()
	w, waits := a.waiting[id]
	delete(a.waiting, id)
	a.mu.Unlock()
	if waits {
		w.done(rev, err)
	}
}

// answer takes in what the server says.
func (a *acks) answer(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, a.prefix), 10, 64)
	if err != nil {
		return
	}
	rev, err := outcome(m)
	a.end(id, rev, err)
}

// The codes of the server for a write whose condition does not hold, and for
// one that came while another on the same subject was under way.
const (
	codeWrongSequence = 10071
	codeInFlight      = 10164
)

func outcome(m *nats.Msg) (uint64, error) {
	if len(m.Data) == 0 {
		return 0, fmt.Errorf("tasks: no stream answers: %s", m.Header.Get("Status"))
	}
	if seq, ok := applied(m.Data); ok {
		return seq, nil
	}
	var r struct {
		Error *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
		Seq uint64 `json:"seq"`
	}
	switch err := json.Unmarshal(m.Data, &r); {
	case err != nil:
		return 0, fmt.Errorf("tasks: the answer to a write is no acknowledgement: %w", err)
	case r.Error != nil && (r.Error.Code == codeWrongSequence || r.Error.Code == codeInFlight):
		return 0, fmt.Errorf("%w: %s", ErrConflict, r.Error.Text)
	case r.Error != nil:
		return 0, fmt.Errorf("tasks: the server refuses a write: %s (%d)", r.Error.Text, r.Error.Code)
	default:
		return r.Seq, nil
	}
}

// applied returns the revision that an acknowledgement states which says
// nothing else. encoding/json takes ten times as long, three times a task.
func applied(data []byte) (rev uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	_, rest, _ = bytes.Cut(rest, []byte{'"'})
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"seq":`)); !ok {
		return 0, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte{'}'}); !ok {
		return 0, false
	}
	rev, err := strconv.ParseUint(string(rest), 10, 64)
	return rev, err == nil && rev > 0
}

// expire gives up those that wait for too long.
func (a *acks) expire() {
	var late []ack
	a.mu.Lock()
	now := time.Now()
	for ; a.oldest < a.next; a.oldest++ {
		w, waits := a.waiting[a.oldest]
		if waits && now.Sub(w.sent) < ackFor {
			break
		}
		if waits {
			delete(a.waiting, a.oldest)
			late = append(late, w)
		}
	}
	switch {
	case a.closed || len(a.waiting) == 0:
		a.timer = nil
	default:
		a.timer = time.AfterFunc(max(ackFor-now.Sub(a.waiting[a.oldest].sent), time.Millisecond), a.expire)
	}
	a.mu.Unlock()
	for _, w := range late {
		w.done(0, errNoAck)
	}
}

func (a *acks) close() {
	a.mu.Lock()
	left := a.waiting
	a.waiting, a.closed = map[uint64]ack{}, true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	_ = a.sub.Unsubscribe() // the connection may be closed
	for _, w := range left {
		w.done(0, nats.ErrConnectionClosed)
	}
}
