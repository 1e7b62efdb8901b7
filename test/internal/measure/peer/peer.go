// Package peer makes libraries that elect leaders comparable. Each has an
// adapter, in a separate file, by which package lab gives all of them the same
// work. This library is here. The others are in test/labs/compare, whose module
// requires their clients.
package peer

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A Broadcaster is a Library on NATS whose server notifies all candidates of
// each write, by a message on a subject that is the prefix returned and the
// key.
type Broadcaster interface {
	Library
	Broadcasts() (prefix string)
}

// A Plainer is a Library on NATS which watches, and whose watches cost more in
// a bucket as other tools make it, which does not republish writes. Plain is
// the same library in such a bucket.
type Plainer interface {
	Library
	Plain() Library
}

// Find returns the library of that name, which may be the one of a [Plainer],
// or nil.
func Find(name string, libraries []Library) Library {
	for _, l := range libraries {
		if l.Name() == name {
			return l
		}
		if p, ok := l.(Plainer); ok && p.Plain().Name() == name {
			return p.Plain()
		}
	}
	return nil
}

// A Store is the servers that libraries keep their elections in.
type Store interface {
	// Name is the name of the server, with its version.
	Name() string
	// Serve is the process of the servers: see [harness.Serve]. It sends the
	// [harness.Servers] to its parent. A single server keeps its files in a
	// directory and is reached by a port, which is any if it is 0.
	Serve(servers int, dir string, port int, stdin io.Reader, stdout io.Writer) error
	// Prepare makes what the libraries need in empty servers.
	Prepare(ctx context.Context, at harness.Servers) error
	// Delete removes what a group keeps, as an operator's own tool would.
	Delete(ctx context.Context, at harness.Servers, group string) error
	// Swaps are compare-and-swaps as the store's client does them.
	Swaps(ctx context.Context, at harness.Servers) (*harness.Swaps, error)
	// Messages returns how many messages the servers have received from clients
	// and sent to them.
	Messages(ctx context.Context, at harness.Servers) (in, out int64, err error)
}

// Bucket is the NATS bucket in which the libraries that use NATS keep their
// elections.
const Bucket = "elections"

// A Library is one way to elect a leader.
type Library interface {
	// Name is short, and as the tables show it.
	Name() string
	// Module is the path of the Go module, by which its version is found.
	Module() string
	// Store is what it needs.
	Store() Store
	// LeaseFor returns its settings for leases of that length, by its own
	// documented proportions. It returns false where the library does not
	// permit such a length.
	LeaseFor(ttl time.Duration) (Lease, bool)
	// BeatFor returns its settings for a holder that renews at that interval.
	BeatFor(heartbeat time.Duration) Lease
	// Answers reports whether a program can ask the library, without a request
	// to the store, whether it leads.
	Answers() bool
	// Connect makes one connection to the store at host:port, or at several
	// separated by commas. It may return before the connection is established.
	Connect(address string, opts Options) (Client, error)
}

// Options of a connection.
type Options struct {
	// Dial, if not nil, makes the TCP connections.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// A Lease is how long one lasts, and how often its holder renews it.
type Lease struct{ TTL, Heartbeat time.Duration }

// A Client is one connection of a program, on which it takes part in any number
// of elections.
type Client interface {
	// Join makes a candidate and starts it.
	Join(ctx context.Context, c Candidacy) (Candidate, error)
	Close()
}

// A Candidacy is what a candidate is made of. Its functions are called from the
// library's own goroutines and must be quick.
type Candidacy struct {
	Group, ID string
	Lease     Lease
	// Promoted, optional, is called when the library reports to the program
	// that it leads.
	Promoted func()
	// Renewed, optional, is called when the store has acknowledged a renewal,
	// with the instant at which that left.
	Renewed func(sent time.Time)
	// Moved, optional, is called by an [OurCandidate] when something happened.
	Moved func()
}

// A Candidate takes part in one election until it is stopped.
type Candidate interface {
	// IsLeader is the library's answer to a program that asks whether it leads.
	// A library that has none (see Library.Answers) answers as Works does.
	IsLeader() bool
	// Works reports whether the program would act: the library has reported
	// that it leads, and nothing has happened yet that would make it stop.
	Works() bool
	// Follows reports whether this candidate knows that the candidate with the
	// ID leads, or, if the library does not report it, whether this candidate
	// is queued.
	Follows(id string) bool
	// Claims is how many writes it has sent that could have made it the leader.
	Claims() int
	// Stop leaves the election as the library's documentation asks a program
	// to: what it leads, it releases.
	Stop(ctx context.Context) error
}
