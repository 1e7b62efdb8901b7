package grpctasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/grpc/grpctasks/internal/pb"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

const (
	service = "leader.tasks.v1.Tasks"
	method  = "/" + service + "/Work"
)

// ErrOpen means that a dispatcher of the group is open already at this server.
var ErrOpen = errors.New("grpctasks: a dispatcher of the group is open")

// A Server is the leader's end: a gRPC service, and a tasks.Hub. Its methods
// may be called concurrently.
type Server struct {
	stall time.Duration // after which the stream of a worker that takes nothing ends

	mu   sync.Mutex
	open map[string]*hub // by group
}

var _ tasks.Hub = (*Server)(nil)

// NewServer returns a server without dispatchers, which refuses every worker.
func NewServer() *Server { return &Server{stall: stall, open: map[string]*hub{}} }

// stall bounds the memory for messages to a worker that reports that it lives
// and reads nothing. Such a worker opens another stream.
const stall = 10 * time.Second

// Register adds the service to a gRPC server, before that serves.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil), Metadata: "tasks.proto",
		Streams: []grpc.StreamDesc{{
			StreamName: "Work", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.work(stream) },
		}},
	}, nil)
}

// Open implements tasks.Hub. The error is ErrOpen.
func (s *Server) Open(_ context.Context, group string, hear func(wire.FromWorker)) (tasks.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[group] != nil {
		return nil, fmt.Errorf("%w: %q", ErrOpen, group)
	}
	h := &hub{s: s, group: group, hear: hear, end: make(chan struct{}), streams: map[*stream]struct{}{}}
	s.open[group] = h
	return h, nil
}

// A hub is a group's, while its dispatcher leads.
type hub struct {
	s     *Server
	group string
	hear  func(wire.FromWorker)
	end   chan struct{} // closed when it is closed
	busy  sync.WaitGroup

	mu      sync.Mutex
	call    *pb.ToWorker // the latest to all, for those who come later
	life    *pb.ToWorker // a sign of life: the term alone; nil before the dispatcher's first message
	streams map[*stream]struct{}
}

// A stream is the stream of one worker.
type stream struct {
	worker string
	out    *outbox[*pb.ToWorker]
	full   chan struct{} // holds one once out had no room
}

// put has a message sent. Without room for it the stream ends: the worker takes
// less than it is sent. The call that its next stream begins with asks for all
// that matters.
func (st *stream) put(m *pb.ToWorker) {
	if st.out.put(m, len(m.GetOrders())+len(m.GetRevoked())+len(m.GetSettled())) {
		return
	}
	select {
	case st.full <- struct{}{}:
	default:
	}
}

// Send implements tasks.Conn.
func (h *hub) Send(worker string, m wire.ToWorker) {
	out := toWorker(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		h.life = toWorker(wire.ToWorker{Term: m.Term}) // a hub is open for one term
	}
	if worker == "" && m.Call {
		h.call = out
	}
	for s := range h.streams {
		if worker == "" || s.worker == worker {
			s.put(out)
		}
	}
}

// Close implements tasks.Conn.
func (h *hub) Close() {
	h.s.mu.Lock()
	if h.s.open[h.group] == h {
		delete(h.s.open, h.group)
		close(h.end)
	}
	h.s.mu.Unlock()
	h.busy.Wait()
}

func (h *hub) join(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams[s] = struct{}{}
	if h.call != nil {
		s.put(h.call)
	}
}

// show sends a worker a sign of life, unless a message waits for it, which is a
// sign, too. Before the dispatcher has named the term in which it leads there
// is none to state, and its first message calls all workers.
func (h *hub) show(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != nil {
		s.out.putAlone(h.life)
	}
}

func (h *hub) part(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

// enter returns the hub of a group, which leave has to be called of, or nil.
func (s *Server) enter(group string) *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.open[group]
	if h != nil {
		h.busy.Add(1)
	}
	return h
}

// work serves a worker until it leaves, or the term ends.
func (s *Server) work(ss grpc.ServerStream) error {
	first := new(pb.FromWorker)
	if err := ss.RecvMsg(first); err != nil {
		return err
	}
	if !tasks.ValidName(first.GetWorker()) {
		return status.Error(codes.InvalidArgument, "the first message names no worker")
	}
	h := s.enter(first.GetGroup())
	if h == nil {
		return status.Errorf(codes.FailedPrecondition, "no dispatcher of group %.200q leads here", first.GetGroup())
	}
	st := &stream{worker: first.GetWorker(), out: newOutbox[*pb.ToWorker](), full: make(chan struct{}, 1)}
	heard, sent, slow := make(chan error, 1), make(chan error, 1), time.NewTimer(s.stall)
	slow.Stop()
	h.join(st)
	defer h.part(st)
	h.busy.Add(1)
	// Both end with the stream's context, and so with this function, which a
	// worker that takes nothing must not hold up.
	go func() { heard <- h.receive(ss, st, first) }()
	go func() { sent <- h.send(ss, st, slow) }()
	select {
	case err := <-sent:
		return err
	case err := <-heard:
		if errors.Is(err, io.EOF) {
			return nil // the worker has ended
		}
		return err
	case <-st.full:
		return status.Errorf(codes.ResourceExhausted, "the worker takes less than it is sent: more than %d messages and items wait", maxWaiting)
	case <-slow.C:
		return status.Errorf(codes.Unavailable, "the worker has taken nothing for %v", s.stall)
	case <-h.end:
		return status.Error(codes.Unavailable, "the term has ended")
	}
}

// send sends a worker what is for it, until the stream ends. slow runs while it
// waits for the worker to take a message.
func (h *hub) send(ss grpc.ServerStream, st *stream, slow *time.Timer) error {
	defer h.busy.Done()
	defer slow.Stop()
	for {
		select {
		case <-st.out.wake:
		case <-ss.Context().Done():
			return ss.Context().Err()
		}
		for m, ok := st.out.take(); ok; m, ok = st.out.take() {
			slow.Reset(h.s.stall)
			if err := ss.SendMsg(m); err != nil {
				return err
			}
			slow.Stop()
		}
	}
}

// receive hears a worker until the stream or the hub ends.
func (h *hub) receive(ss grpc.ServerStream, st *stream, m *pb.FromWorker) error {
	defer h.busy.Done()
	for {
		select {
		case <-h.end:
			return nil
		default:
		}
		if m.GetRun() == "" {
			h.show(st)
		} else {
			heard := fromWorkerOf(m)
			heard.Worker = st.worker
			// The dispatcher would drop the message; this reports it to the worker.
			if err := heard.Validate(); err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			h.hear(heard)
		}
		m = new(pb.FromWorker)
		if err := ss.RecvMsg(m); err != nil {
			return err
		}
	}
}
