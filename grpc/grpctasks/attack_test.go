package grpctasks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/grpc/grpctasks"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks/internal/pb"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// deaf opens the stream of a worker that reads nothing, as one that is frozen
// does not. It returns when the server has heard of it.
func deaf(t *testing.T, conn *grpc.ClientConn, heard <-chan struct{}) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	desc := &grpc.StreamDesc{StreamName: "Work", ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(ctx, desc, "/leader.tasks.v1.Tasks/Work")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: "w", Run: "r"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatal("the server does not hear")
	}
	return s
}

// much is more than a stream that nobody reads takes.
func much() wire.ToWorker {
	m := wire.ToWorker{Term: wire.Term{Number: 1, Token: "t"}, Run: "r"}
	for range 4 {
		m.Orders = append(m.Orders, wire.Order{Payload: make([]byte, 64<<10)})
	}
	return m
}

// A leader that cannot end its term keeps the others waiting, and never
// campaigns again.
func TestAWorkerThatReadsNothingHoldsUpNoEndOfATerm(t *testing.T) {
	srv, conn := serve(t)
	srv.SetStall(time.Hour)
	heard := make(chan struct{}, 1)
	hub, err := srv.Open(t.Context(), "g", func(wire.FromWorker) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	s := deaf(t, conn, heard)
	for range 8 {
		hub.Send("w", much())
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		hub.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience / 4):
		t.Error("the dispatcher's term does not end")
	}
	ended(t, s, codes.Unavailable)
	<-closed
}

// ended demands that the server ends a stream for a reason.
func ended(t *testing.T, s grpc.ClientStream, why codes.Code) {
	t.Helper()
	for {
		if err := s.RecvMsg(new(pb.ToWorker)); err != nil {
			if status.Code(err) != why {
				t.Error(err)
			}
			return
		}
	}
}

// The messages that wait for it would grow for as long as it reports that it
// lives.
func TestAWorkerThatReadsNothingLosesItsStream(t *testing.T) {
	served := make(chan struct{})
	srv, conn := serve(t, grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		defer close(served)
		return next(srv, ss)
	}))
	srv.SetStall(10 * time.Millisecond)
	heard := make(chan struct{}, 1)
	hub, err := srv.Open(t.Context(), "g", func(wire.FromWorker) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	s := deaf(t, conn, heard)
	for range 8 {
		hub.Send("w", much())
	}
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("the stream goes on")
	}
	ended(t, s, codes.Unavailable)
}

// A worker that takes a message now and then never stalls. Answers to its
// questions must not pile up in the leader's memory.
func TestQuestionsOfAWorkerThatReadsSlowlyAreAnsweredOnce(t *testing.T) {
	srv, conn := serve(t)
	heard := make(chan struct{}, 1)
	hub, err := srv.Open(t.Context(), "g", func(wire.FromWorker) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	hub.Send("", wire.ToWorker{Term: wire.Term{Number: 1, Token: strings.Repeat("t", 100)}, Call: true})
	s := deaf(t, conn, heard)
	for range 50_000 {
		if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: "w"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: "w", Run: "r"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard: // after the questions before it
	case <-time.After(patience):
		t.Fatal("the server does not hear")
	}
	if n := srv.Waiting("g"); n > 2 {
		t.Errorf("%d messages wait", n)
	}
	if err := s.RecvMsg(new(pb.ToWorker)); err != nil {
		t.Errorf("the stream has ended: %v", err)
	}
}

// Messages for a worker that reads too slowly are bounded by their number, too.
func TestAWorkerForWhichTooMuchWaitsLosesItsStream(t *testing.T) {
	srv, conn := serve(t)
	srv.SetStall(time.Hour)
	heard := make(chan struct{}, 1)
	hub, err := srv.Open(t.Context(), "g", func(wire.FromWorker) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	s := deaf(t, conn, heard)
	m := wire.ToWorker{Term: wire.Term{Number: 1, Token: "t"}, Run: "r"}
	for range tasks.MaxCapacity {
		m.Settled = append(m.Settled, wire.Ref{ID: strings.Repeat("x", tasks.MaxName), Attempt: 1})
	}
	for range 12 {
		hub.Send("w", m)
	}
	if n := srv.Waiting("g"); n > 6*tasks.MaxCapacity {
		t.Errorf("%d messages and items wait", n)
	}
	ended(t, s, codes.ResourceExhausted)
}

func TestAStreamOfAnInvalidMessageIsRefused(t *testing.T) {
	srv, conn := serve(t)
	heard := make(chan struct{}, 1)
	hub, err := srv.Open(t.Context(), "g", func(wire.FromWorker) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	s := deaf(t, conn, heard)
	if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: "w", Run: "r", Presence: &pb.Presence{Capacity: -1}}); err != nil {
		t.Fatal(err)
	}
	ended(t, s, codes.InvalidArgument)
	if len(heard) > 0 {
		t.Error("an invalid message was heard")
	}
}

// A stream belongs to the worker that its first message names.
func TestAStreamSpeaksForOneWorker(t *testing.T) {
	srv, conn := serve(t)
	heard := make(chan wire.FromWorker, 2)
	hub, err := srv.Open(t.Context(), "g", func(m wire.FromWorker) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := func(first, second string) grpc.ClientStream {
		desc := &grpc.StreamDesc{StreamName: "Work", ServerStreams: true, ClientStreams: true}
		s, err := conn.NewStream(ctx, desc, "/leader.tasks.v1.Tasks/Work")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{first, second} {
			if err := s.SendMsg(&pb.FromWorker{Group: "g", Worker: name, Run: "r"}); err != nil {
				return s // refused already
			}
		}
		return s
	}
	open("w", "other")
	for range 2 {
		select {
		case m := <-heard:
			if m.Worker != "w" {
				t.Errorf("heard as %q", m.Worker)
			}
		case <-time.After(patience):
			t.Fatal("nothing is heard")
		}
	}
	if err := open("w.h", "w").RecvMsg(new(pb.ToWorker)); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// protobuf sends only text that is valid UTF-8. A worker that cannot report how
// an attempt has ended is lost with all that it runs, and so is the next one
// that is given the task.
func TestAnErrorOfAnyBytesIsReported(t *testing.T) {
	st := tasks.NewMemory()
	srv, conn := serve(t)
	lead(t, st, srv, 1)
	texts := map[string]string{
		"bytes": "the answer was \xff\x00",
		"odd":   strings.Repeat("\u00fc", 1<<10),
		"even":  "x" + strings.Repeat("\u00fc", 1<<10),
	}
	work(t, conn, "w", func(_ context.Context, task tasks.Task) ([]byte, error) {
		return nil, tasks.Permanent(errors.New(texts[task.ID]))
	}, grpctasks.LinkOptions{})
	for id := range texts {
		submit(t, st, tasks.Spec{ID: id})
		if s := finished(t, st, id, tasks.Failed); s.Attempt != 1 || !utf8.ValidString(s.Error) {
			t.Errorf("%+v", s)
		}
	}
}
