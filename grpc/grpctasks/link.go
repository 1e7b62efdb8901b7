package grpctasks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-ff2cb582/leader/grpc/grpctasks/internal/pb"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// DefaultSilence is how long a leader may be silent on a stream by default.
const DefaultSilence = 3 * time.Second

// leastSilence keeps a duration whose unit was forgotten from asking the leader
// all the time.
const leastSilence = 10 * time.Millisecond

// LinkOptions are the settings of a Link. The zero value is a good one.
type LinkOptions struct {
	// Silence is for how long nothing may come from a leader, or nothing but
	// what is of an older term than the newest that came. It is asked for a sign
	// of life three times in that time; then the stream is given up, and another
	// opened. Default: DefaultSilence. Less than 10 ms counts as that.
	Silence time.Duration
	// Logger logs why streams end. Nil: silent.
	Logger *slog.Logger
}

// A Link is the worker's end. Its methods may be called concurrently.
type Link struct {
	conn grpc.ClientConnInterface
	opts LinkOptions
}

var _ tasks.Link = (*Link)(nil)

// NewLink returns a link over a channel, which stays the caller's and is best
// one that follows the leader (leadergrpc.Builder). Workers may share it.
func NewLink(conn grpc.ClientConnInterface, opts LinkOptions) *Link {
	if opts.Silence <= 0 {
		opts.Silence = DefaultSilence
	}
	opts.Silence = max(opts.Silence, leastSilence)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Link{conn: conn, opts: opts}
}

// Join implements tasks.Link. It returns at once; the stream is opened beside,
// again and again until the seat is closed.
func (l *Link) Join(_ context.Context, group, worker string, hear func(wire.ToWorker)) (tasks.Seat, error) {
	s := &seat{l: l, group: group, worker: worker, hear: hear, log: l.opts.Logger.With("group", group, "worker", worker)}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.ended.Go(func() { s.run(ctx) })
	return s, nil
}

// A seat is the seat of one worker.
type seat struct {
	l             *Link
	group, worker string
	hear          func(wire.ToWorker)
	log           *slog.Logger
	end           context.CancelFunc
	ended         sync.WaitGroup

	mu     sync.Mutex
	out    *outbox[*pb.FromWorker] // nil while no stream is open
	newest wire.Term               // of all that was heard
	closed bool
}

// Say implements tasks.Seat. While there is no stream, messages are dropped:
// the next leader asks for all that matters.
func (s *seat) Say(m wire.FromWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil {
		// Without room it is dropped, too.
		s.out.put(fromWorker(s.group, m), len(m.Reports)+len(m.Refused))
	}
}

// closeFor is how long the last messages may take to be sent.
const closeFor = time.Second

// Close implements tasks.Seat. It flushes queued messages if a stream is open
// and takes them.
func (s *seat) Close() {
	s.mu.Lock()
	out := s.out
	s.out, s.closed = nil, true
	s.mu.Unlock()
	if out == nil {
		s.end()
	} else {
		out.put(nil, 0) // the end
		defer time.AfterFunc(closeFor, s.end).Stop()
	}
	s.ended.Wait()
	s.end()
}

// The delays between streams.
const (
	firstDelay = 10 * time.Millisecond
	mostDelay  = 500 * time.Millisecond
)

func (s *seat) run(ctx context.Context) {
	for delay := firstDelay; ctx.Err() == nil; {
		begun := time.Now()
		err := s.stream(ctx)
		if s.isClosed() {
			return
		}
		s.log.Info("the stream to the leader has ended", "error", err)
		if time.Since(begun) > mostDelay {
			delay = firstDelay
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		delay = min(2*delay, mostDelay)
	}
}

func (s *seat) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// stream is open until it breaks, or the leader is silent.
func (s *seat) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	desc := &grpc.StreamDesc{StreamName: "Work", ServerStreams: true, ClientStreams: true}
	cs, err := s.l.conn.NewStream(ctx, desc, method, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := cs.SendMsg(s.ask()); err != nil {
		return fmt.Errorf("no worker is let in: %w", cs.RecvMsg(new(pb.ToWorker)))
	}
	out := newOutbox[*pb.FromWorker]()
	if !s.opened(out) {
		return cs.CloseSend()
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.out == out {
			s.out = nil
		}
	}()
	alive := make(chan struct{}, 1)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	all.Go(func() { cancel(s.receive(cs, alive)) })
	all.Go(func() {
		if err := s.send(ctx, cs, out); err != nil {
			cancel(err)
		}
	})
	silence := time.NewTimer(s.l.opts.Silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-alive:
			silence.Reset(s.l.opts.Silence)
		case <-silence.C:
			return fmt.Errorf("the leader is silent for %v", s.l.opts.Silence) //nolint:err113 // for the log alone
		}
	}
}

// opened directs messages to a stream, and reports whether it may: not once the
// seat was closed.
func (s *seat) opened(out *outbox[*pb.FromWorker]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.out = out
	}
	return !s.closed
}

func (s *seat) receive(cs grpc.ClientStream, alive chan<- struct{}) error {
	for {
		m := new(pb.ToWorker)
		if err := cs.RecvMsg(m); err != nil {
			return err
		}
		heard := toWorkerOf(m)
		if heard.Term.Number == 0 {
			continue // no leader's
		}
		// The worker would drop the message, too late: obeyed would count its term.
		if err := heard.Validate(); err != nil {
			return fmt.Errorf("a message of the leader is not valid: %w", err)
		}
		if s.obeyed(heard.Term) {
			select {
			case alive <- struct{}{}:
			default:
			}
		}
		s.hear(heard)
	}
}

// obeyed reports whether the worker now obeys messages of a term. A message of
// an older term does not count as a sign of life, so that a stream to a deposed
// leader, which may not know that it is deposed, is given up like a silent one.
func (s *seat) obeyed(t wire.Term) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.Supersedes(s.newest) {
		return false
	}
	s.newest = t
	return true
}

// ask returns what names the worker, and asks for a sign of life.
func (s *seat) ask() *pb.FromWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fromWorker(s.group, wire.FromWorker{Worker: s.worker, Seen: s.newest.Number, SeenToken: s.newest.Token})
}

// send sends the messages, and asks for signs of life. It returns nil when the
// seat is closed and all was sent.
func (s *seat) send(ctx context.Context, cs grpc.ClientStream, out *outbox[*pb.FromWorker]) error {
	ask := time.NewTicker(s.l.opts.Silence / 3)
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-out.wake:
			for m, ok := out.take(); ok; m, ok = out.take() {
				if m == nil {
					return cs.CloseSend() // the server ends the stream then
				}
				if err := cs.SendMsg(m); err != nil {
					return err
				}
			}
		case <-ask.C:
			if err := cs.SendMsg(s.ask()); err != nil {
				return err
			}
		}
	}
}
