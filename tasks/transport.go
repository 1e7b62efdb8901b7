package tasks

import (
	"context"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A Hub is the leader's end of a transport. Its messages may be lost, come
// late, in another order and more than once: leader and workers repeat what
// matters.
type Hub interface {
	// Open begins to hear the workers of a group, until the Conn is closed.
	// hear returns quickly, and may be called concurrently. It drops a message
	// that Validate refuses. An error is final.
	Open(ctx context.Context, group string, hear func(wire.FromWorker)) (Conn, error)
}

// A Conn is an open Hub. Its methods may be called concurrently.
type Conn interface {
	// Send brings a message to the worker of that name, or to all without a
	// name. It does not wait for anybody.
	Send(worker string, m wire.ToWorker)
	// Close ends it. hear is not called after Close has returned.
	Close()
}

// A Link is the worker's end of a transport.
type Link interface {
	// Join begins to hear the leader of a group, whichever that is, until the
	// Seat is closed. hear returns quickly, and may be called concurrently. It
	// drops a message that Validate refuses. An error is final; a leader that is
	// not there is none.
	Join(ctx context.Context, group, worker string, hear func(wire.ToWorker)) (Seat, error)
}

// A Seat is an open Link. Its methods may be called concurrently.
type Seat interface {
	// Say brings a message to the leader. It does not wait for anybody.
	Say(m wire.FromWorker)
	// Close ends it. hear is not called after Close has returned.
	Close()
}

// bulk is how many bytes of payloads and results go in one message at most.
// Another may be added, and base64 makes them a third longer: the message still
// fits into the 1 MiB that a NATS server allows by default.
const bulk = 256 << 10

// overhead is how many bytes an item of a message takes at most beside its ID
// and what it carries.
const overhead = 96

// escaped is how many bytes JSON takes at most for one of a text: as many for
// each < of an error that is a page of HTML.
const escaped = len(`\u003c`)

// Split returns the message in parts of which each is small enough for NATS and
// for gRPC, by their defaults.
func Split(m wire.ToWorker) (parts []wire.ToWorker) {
	part, size := wire.ToWorker{Term: m.Term, Run: m.Run, Call: m.Call}, 0
	grow := func(n int) {
		if size > bulk {
			parts = append(parts, part)
			part, size = wire.ToWorker{Term: m.Term, Run: m.Run}, 0
		}
		size += n
	}
	for _, ref := range m.Settled {
		grow(len(ref.ID) + overhead)
		part.Settled = append(part.Settled, ref)
	}
	for _, ref := range m.Revoked {
		grow(len(ref.ID) + overhead)
		part.Revoked = append(part.Revoked, ref)
	}
	for _, o := range m.Orders {
		grow(len(o.ID) + len(o.Payload) + overhead)
		part.Orders = append(part.Orders, o)
	}
	return append(parts, part)
}

// SplitReports is [Split] for a worker's message.
func SplitReports(m wire.FromWorker) (parts []wire.FromWorker) {
	reports := m.Reports
	m.Reports = nil
	for size := 0; len(reports) > 0; reports = reports[1:] {
		if size > bulk {
			parts = append(parts, m)
			m, size = wire.FromWorker{Worker: m.Worker, Run: m.Run, Seen: m.Seen, SeenToken: m.SeenToken, Leaving: m.Leaving}, 0
			parts[len(parts)-1].Leaving = false
		}
		size += len(reports[0].ID) + len(reports[0].Result) + escaped*len(reports[0].Error) + overhead
		m.Reports = append(m.Reports, reports[0])
	}
	return append(parts, m)
}
