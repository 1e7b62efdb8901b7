package site

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// A Relay is a key that passes from hand to hand by the plain NATS client: each
// holder has its own connection, and its own subscription to each write. The
// holder of the key passes it on by a message to one of the others, which the
// server picks.
type Relay struct {
	holders  []*holder
	holds    *holder
	subject  string // of the key
	passes   string // the subject of the message
	revision uint64 // of the key
	passed   chan *holder
	heard    chan struct{}
}

type holder struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	next *nats.Subscription // to what is passed on; nil while it holds the key
}

// Relay connects n holders. The server republishes each record on a subject
// that is prefix and the key.
func (s *Site) Relay(ctx context.Context, prefix string, n int) (_ *Relay, err error) {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	key := "relay-" + rand.Text()
	// Room for all that one pass makes heard, so that nobody waits.
	r := &Relay{subject: "$KV." + peer.Bucket + "." + key, passes: "pass-" + key, passed: make(chan *holder, n), heard: make(chan struct{}, n)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	for range n {
		nc, err := nats.Connect(s.at.URLs[0])
		if err != nil {
			return nil, err
		}
		h := &holder{nc: nc}
		r.holders = append(r.holders, h)
		if h.js, err = jetstream.New(nc); err != nil {
			return nil, err
		}
		if _, err = nc.Subscribe(prefix+key, func(*nats.Msg) { r.heard <- struct{}{} }); err != nil {
			return nil, err
		}
		if err := r.wait(h); err != nil {
			return nil, err
		}
		if err := nc.FlushWithContext(ctx); err != nil {
			return nil, err
		}
	}
	err = r.take(ctx, r.holders[0])
	return r, err
}

// wait lets h take what is passed on.
func (r *Relay) wait(h *holder) (err error) {
	h.next, err = h.nc.QueueSubscribe(r.passes, "holders", func(*nats.Msg) { r.passed <- h })
	return err
}

// take has h hold the key.
func (r *Relay) take(ctx context.Context, h *holder) error {
	r.holds = h
	if err := h.next.Unsubscribe(); err != nil {
		return err
	}
	return h.nc.FlushWithContext(ctx)
}

// Close ends the connections.
func (r *Relay) Close() {
	for _, h := range r.holders {
		h.nc.Close()
	}
}

// Pass makes the holder pass the key on, and its receiver write it. It returns
// how long both took, after all holders have received it.
func (r *Relay) Pass(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	begun := time.Now()
	if err := r.holds.nc.Publish(r.passes, make([]byte, harness.RecordSize)); err != nil {
		return 0, err
	}
	var next *holder
	select {
	case next = <-r.passed:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if r.revision, err = r.write(ctx, next, r.revision); err != nil {
		return 0, err
	}
	took = time.Since(begun)
	for range r.holders {
		select {
		case <-r.heard:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if err := r.wait(r.holds); err != nil {
		return 0, err
	}
	return took, r.take(ctx, next)
}

func (r *Relay) write(ctx context.Context, h *holder, revision uint64) (uint64, error) {
	msg := nats.NewMsg(r.subject)
	msg.Data = make([]byte, harness.RecordSize)
	ack, err := h.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
