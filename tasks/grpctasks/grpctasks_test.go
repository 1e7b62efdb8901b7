package grpctasks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/grpctasks"
	"github.com/seed-ff2cb582/leader/tasks/grpctasks/internal/pb"
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
	streams := make(chan struct{}, 100)
	_, conn := serve(t, grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		streams <- struct{}{}
		<-ss.Context().Done()
		return nil
	}))
	work(t, conn, "w", func(context.Context, tasks.Task) ([]byte, error) { return nil, nil }, grpctasks.LinkOptions{Silence: 50 * time.Millisecond})
	for range 3 {
		select {
		case <-streams:
		case <-time.After(patience):
			t.Fatal("the silent stream was kept")
		}
	}
}

func TestAWorkerThatEndsSaysSo(t *testing.T) {
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

func TestWhatNoServerServesIsRefused(t *testing.T) {
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
