package grpctasks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks/internal/pb"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// patience bounds every wait.
const patience = time.Minute

// serve returns a server's end and a channel to it.
func serve(t *testing.T, opts ...grpc.ServerOption) (*grpctasks.Server, *grpc.ClientConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, srv := grpc.NewServer(opts...), grpctasks.NewServer()
	srv.Register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return srv, conn
}

// background runs f until end is called, which waits for it.
func background(t *testing.T, f func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	})
	end = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(end)
	return end
}

func lead(t *testing.T, st tasks.Store, hub tasks.Hub, term uint64) (end func()) {
	t.Helper()
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: "g"}, hub)
	return background(t, func(ctx context.Context) error {
		return d.Lead(ctx, leader.Term{Number: term, Token: fmt.Sprint("token", term)})
	})
}

func work(t *testing.T, conn grpc.ClientConnInterface, name string, h tasks.Handler, opts grpctasks.LinkOptions) (end func()) {
	t.Helper()
	return background(t, tasks.NewWorker(grpctasks.NewLink(conn, opts), h, tasks.WorkerOptions{Group: "g", Name: name, Capacity: 4, Labels: []string{"l"}}).Run)
}

func submit(t *testing.T, st tasks.Store, s tasks.Spec) {
	t.Helper()
	if _, err := tasks.Submit(t.Context(), st, s); err != nil {
		t.Fatal(err)
	}
}

func finished(t *testing.T, st tasks.Store, id string, want tasks.State) tasks.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := tasks.Wait(ctx, st, id)
	if err != nil || s.State != want {
		t.Fatalf("%s: %+v, %v", id, s, err)
	}
	return s
}

func TestTasksGoThroughAStream(t *testing.T) {
	st := tasks.NewMemory()
	srv, conn := serve(t)
	lead(t, st, srv, 7)
	work(t, conn, "w", func(_ context.Context, task tasks.Task) ([]byte, error) {
		if task.Term.Number != 7 || task.Term.Token != "token7" {
			t.Errorf("%+v", task)
		}
		if task.ID == "bad" {
			return nil, tasks.Permanent(errors.New("never"))
		}
		return task.Payload, nil
	}, grpctasks.LinkOptions{})
	for i := range 100 {
		submit(t, st, tasks.Spec{ID: fmt.Sprint(i), Payload: []byte(fmt.Sprint("p", i)), To: tasks.Target{Label: "l"}})
	}
	submit(t, st, tasks.Spec{ID: "bad"})
	for i := range 100 {
		if s := finished(t, st, fmt.Sprint(i), tasks.Done); string(s.Result) != fmt.Sprint("p", i) || s.Worker != "w" {
			t.Errorf("%+v", s)
		}
	}
	if s := finished(t, st, "bad", tasks.Failed); s.Attempt != 1 {
		t.Errorf("%+v", s)
	}
}

// The worker is there first; its stream is refused until somebody leads.
func TestAWorkerWaitsForALeaderAndGoesOnWithTheNext(t *testing.T) {
	st := tasks.NewMemory()
	srv, conn := serve(t)
	release, begun := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	work(t, conn, "w", func(context.Context, tasks.Task) ([]byte, error) {
		runs.Add(1)
		close(begun)
		<-release
		return []byte("once"), nil
	}, grpctasks.LinkOptions{})
	submit(t, st, tasks.Spec{ID: "x"})
	end := lead(t, st, srv, 1)
	<-begun
	end()
	close(release)
	lead(t, st, srv, 2)
	if s := finished(t, st, "x", tasks.Done); s.Term != 2 || s.Attempt != 1 || runs.Load() != 1 {
		t.Errorf("%+v after %d runs", s, runs.Load())
	}
}

// A leader that is frozen keeps its connections: the worker gives them up.
func TestAStreamOnWhichNothingComesIsGivenUp(t *testing.T) {
	for _, silence := range []time.Duration{50 * time.Millisecond, 1} { // 1 comes from a unit that was forgotten
		t.Run(silence.String(), func(t *testing.T) { givesUp(t, silence) })
	}
}

func givesUp(t *testing.T, silence time.Duration) {
	t.Helper()
	streams := make(chan struct{}, 100)
	_, conn := serve(t, grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		select {
		case streams <- struct{}{}:
		default:
		}
		<-ss.Context().Done()
		return nil
	}))
	work(t, conn, "w", func(context.Context, tasks.Task) ([]byte, error) { return nil, nil }, grpctasks.LinkOptions{Silence: silence})
	for range 3 {
		select {
		case <-streams:
		case <-time.After(patience):
			t.Fatal("the silent stream was kept")
		}
	}
}

// puppet has a test be the leader at the other end of each stream of a worker,
// for a minute of virtual time.
func puppet(t *testing.T, lead func(n int32, ss grpc.ServerStream) error) (streams int32) {
	t.Helper()
	var n atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		s := grpc.NewServer(grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			return lead(n.Add(1), ss)
		}))
		grpctasks.NewServer().Register(s)
		go func() { _ = s.Serve(l) }()
		defer s.Stop()
		conn, err := grpc.NewClient("passthrough:///w", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // a fixture
		defer work(t, conn, "w", func(context.Context, tasks.Task) ([]byte, error) { return nil, nil }, grpctasks.LinkOptions{Silence: 3 * time.Second})()
		time.Sleep(time.Minute)
		streams = n.Load()
	})
	return streams
}

// A deposed leader that does not know it goes on to report that it lives. Its
// messages are of an older term.
func TestAStreamOnWhichAnOlderTermAloneSpeaksIsGivenUp(t *testing.T) {
	told := 0
	streams := puppet(t, func(n int32, ss grpc.ServerStream) error {
		term := &pb.ToWorker{Term: 1, Token: "old"}
		if n == 1 {
			term = &pb.ToWorker{Term: 2, Token: "new"}
		}
		for asked := 0; n > 1 || asked < 2; {
			m := new(pb.FromWorker)
			if err := ss.RecvMsg(m); err != nil {
				return err
			}
			if m.GetRun() == "" {
				asked++
				if err := ss.SendMsg(term); err != nil {
					return err
				}
			} else if n > 1 { // so that the deposed leader learns of it
				told++
				if m.GetSeen() != 2 || m.GetSeenToken() != "new" {
					t.Errorf("the worker sends %v", m)
				}
			}
		}
		return status.Error(codes.Unavailable, "deposed")
	})
	if streams < 15 || told < int(streams) {
		t.Errorf("%d streams, on which the worker spoke %d times of the newer term", streams, told)
	}
}

func TestASignOfLifeKeepsAStream(t *testing.T) {
	asked := 0
	streams := puppet(t, func(_ int32, ss grpc.ServerStream) error {
		for n := 0; ; n++ {
			m := new(pb.FromWorker)
			if err := ss.RecvMsg(m); err != nil {
				return err
			}
			if n > 2 && (m.GetSeen() != 3 || m.GetSeenToken() != "t") {
				t.Errorf("the worker sends %v", m)
			}
			if m.GetRun() != "" {
				continue
			}
			asked++
			if err := ss.SendMsg(&pb.ToWorker{Term: 3, Token: "t"}); err != nil {
				return err
			}
		}
	})
	if streams != 1 || asked < 59 {
		t.Errorf("%d streams, and %d questions", streams, asked)
	}
}

func TestEveryMessageStatesTermAndToken(t *testing.T) {
	srv, conn := serve(t)
	heard := make(chan wire.FromWorker, 100)
	c, err := srv.Open(t.Context(), "g", func(m wire.FromWorker) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: "Work", ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(ctx, desc, "/leader.tasks.v1.Tasks/Work")
	if err != nil {
		t.Fatal(err)
	}
	say := func(run string) {
		if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: "w", Run: run, Seen: 6, SeenToken: "before"}); err != nil {
			t.Fatal(err)
		}
	}
	say("")
	say("r") // when it is heard, the question before it was, too
	if m := <-heard; m.Seen != 6 || m.SeenToken != "before" {
		t.Errorf("%+v", m)
	}
	c.Send("", wire.ToWorker{Term: wire.Term{Number: 7, Token: "t"}, Call: true})
	for _, call := range []bool{true, false} {
		if !call {
			say("")
		}
		m := new(pb.ToWorker)
		if err := s.RecvMsg(m); err != nil {
			t.Fatal(err)
		}
		if m.GetTerm() != 7 || m.GetToken() != "t" || m.GetCall() != call {
			t.Errorf("%v, want a call %v", m, call)
		}
	}
}

func TestAWorkerReportsItsEnd(t *testing.T) {
	srv, conn := serve(t)
	left := make(chan wire.FromWorker, 100)
	c, err := srv.Open(t.Context(), "g", func(m wire.FromWorker) {
		if m.Presence != nil && !m.Presence.Draining && m.Seen == 1 || m.Leaving {
			left <- m
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Send("", wire.ToWorker{Term: wire.Term{Number: 1, Token: "t"}, Call: true})
	end := work(t, conn, "w", func(context.Context, tasks.Task) ([]byte, error) { return nil, nil }, grpctasks.LinkOptions{})
	select {
	case m := <-left:
		if m.Worker != "w" || m.Presence == nil || m.Presence.Capacity != 4 {
			t.Errorf("%+v", m)
		}
	case <-time.After(patience):
		t.Fatal("the worker does not show itself")
	}
	end()
	for {
		select {
		case m := <-left:
			if m.Leaving {
				return
			}
		case <-time.After(patience):
			t.Fatal("the worker has left without a word")
		}
	}
}

func TestAMessageThatNoGroupServesIsRefused(t *testing.T) {
	srv, conn := serve(t)
	c, err := srv.Open(t.Context(), "g", func(wire.FromWorker) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Open(t.Context(), "g", nil); !errors.Is(err, grpctasks.ErrOpen) {
		t.Errorf("two dispatchers of a group: %v", err)
	}
	c.Close()
	c.Close()
	for want, first := range map[codes.Code]*pb.FromWorker{
		codes.InvalidArgument:    {Group: "g", Worker: "no.name"},
		codes.FailedPrecondition: {Group: "g", Worker: "w"},
	} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/leader.tasks.v1.Tasks/Work")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(first); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new(pb.ToWorker)); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", first, err, want)
		}
	}
}
