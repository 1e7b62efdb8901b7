package site

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
)

// A Relay is a key that passes from hand to hand by the plain NATS client: each holder has a connection of its own, and hears
// of each write by a subscription of its own.
type Relay struct {
	holders  []*holder
	holds    *holder
	subject  string // of the key
	revision uint64 // of the key
	heard    chan hearing
}

type holder struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// A hearing is a holder's, of the write that has the revision.
type hearing struct {
	by       *holder
	revision string
}

// Relay connects n holders. What the server makes of each record comes on a subject that is prefix and the key.
func (s *Site) Relay(ctx context.Context, prefix string, n int) (_ *Relay, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := "relay-" + nuid.Next()
	// Room for all that one pass makes heard, so that nobody waits.
	r := &Relay{subject: "$KV." + peer.Bucket + "." + key, heard: make(chan hearing, 2*n)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	for range n {
		nc, err := nats.Connect("nats://" + s.at.Address)
		if err != nil {
			return nil, err
		}
		h := &holder{nc: nc}
		r.holders = append(r.holders, h)
		if h.js, err = jetstream.New(nc); err != nil {
			return nil, err
		}
		_, err = nc.Subscribe(prefix+key, func(m *nats.Msg) { r.heard <- hearing{h, m.Header.Get(jetstream.SequenceHeader)} })
		if err != nil {
			return nil, err
		}
		if err := nc.FlushWithContext(ctx); err != nil {
			return nil, err
		}
	}
	r.holds = r.holders[0]
	return r, nil
}

// Close ends the connections.
func (r *Relay) Close() {
	for _, h := range r.holders {
		h.nc.Close()
	}
}

// Pass has the holder write, and the first of the others that hears of it write next. It returns how long both took, after
// everybody has heard of both.
func (r *Relay) Pass(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	left := make(chan error, 1)
	go func() {
		_, err := r.write(ctx, r.holds, r.revision)
		left <- err
	}()
	var next *holder
	for range 2 * len(r.holders) {
		h, err := r.hear(ctx)
		if err != nil {
			return 0, err
		}
		if next != nil || h.by == r.holds {
			continue
		}
		next = h.by
		revision, err := strconv.ParseUint(h.revision, 10, 64)
		if err != nil {
			return 0, err
		}
		if r.revision, err = r.write(ctx, next, revision); err != nil {
			return 0, err
		}
		took = time.Since(begun)
	}
	r.holds = next
	return took, <-left
}

func (r *Relay) hear(ctx context.Context) (hearing, error) {
	select {
	case h := <-r.heard:
		return h, nil
	case <-ctx.Done():
		return hearing{}, ctx.Err()
	}
}

func (r *Relay) write(ctx context.Context, h *holder, revision uint64) (uint64, error) {
	msg := nats.NewMsg(r.subject)
	msg.Data = make([]byte, recordSize)
	ack, err := h.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
